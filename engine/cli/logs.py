"""`logs`: the logs of a run's worker and ranks, once or continuously."""

import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from engine.cli.answers import print_json
from engine.cli.frame import json_option
from engine.errors import StoreBusy, UnknownName
from engine.home import Home
from engine.store import Reader
from engine.system.log_files import offset_now, pieces

POLL_S = 0.2
LONGEST_LINE = 1 << 20
"""Bytes; longer lines are split."""


@click.command("logs")
@click.argument("run_id", metavar="ID", type=int)
@click.option("--source", "wanted", multiple=True, help="Only this log, such as worker or trainer1; repeatable.")
@click.option("--follow", "-f", is_flag=True, help="Keep printing until the run ends.")
@click.option(
    "--lines", type=click.IntRange(0), help=("Number of lines to print from the end of each log (default: all).")
)
@json_option
def logs_command(run_id: int, wanted: Sequence[str], follow: bool, lines: int | None, as_json: bool) -> None:
    """Print the logs of a run, each line prefixed by its source; with --json, one object per line."""
    for source, line in read_logs(Home.find(), run_id, wanted, follow=follow, lines=lines):
        if as_json:
            print_json({"source": source, "line": line})
        else:
            click.echo(line if len(wanted) == 1 else f"{source:<10}| {line}")


@dataclass
class LogFollower:
    """Reads new lines of one log file; the last, partial line only with `final`."""

    path: Path
    offset: int = 0
    rest: bytes = b""

    def read(self, *, final: bool = False) -> Iterator[str]:
        """Yield the new lines."""
        if self.path.is_file():
            self.offset = offset_now(self.path, self.offset)
        for piece in pieces(self.path, self.offset):
            self.offset = piece.end
            *whole, self.rest = (self.rest + piece.text).split(b"\n")
            if len(self.rest) >= LONGEST_LINE:
                whole, self.rest = [*whole, self.rest], b""
            yield from map(_text, whole)
        if final and self.rest:
            rest, self.rest = self.rest, b""
            yield _text(rest)


def _text(line: bytes) -> str:
    return line.decode(errors="replace").rstrip("\r")


def read_logs(
    home: Home, run_id: int, wanted: Sequence[str] = (), *, follow: bool = False, lines: int | None = None
) -> Iterator[tuple[str, str]]:
    """Yield (source, line) of each log; with `follow`, until the run has ended and everything is read."""
    tails: dict[str, LogFollower] = {}
    active = True
    while active:
        active = _discover(home, run_id, tails, follow)
        chosen = {source: tail for source, tail in tails.items() if not wanted or source in wanted}
        if not active and (unknown := [source for source in wanted if source not in tails]):
            raise UnknownName("log of this run", unknown[0], tails)
        for source, tail in chosen.items():
            first = tail.offset == 0
            found: Iterable[str] = tail.read(final=not active)
            if first and lines is not None:
                found = deque(found, maxlen=lines)
            yield from ((source, line) for line in found)
        if active:
            time.sleep(POLL_S)


def _discover(home: Home, run_id: int, tails: dict[str, LogFollower], follow: bool) -> bool:
    """Add new logs; return whether to keep following."""
    try:
        with Reader.open(home) as reader:
            run = reader.runs.one(run_id)  # before the files are read, so that the last lines are not missed
            for source, path in reader.details.logs(run_id):
                tails.setdefault(source, LogFollower(home.run_folder(run_id) / path))
    except StoreBusy:
        if not follow:
            raise
        return True
    return follow and run.active
