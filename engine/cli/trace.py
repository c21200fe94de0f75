"""`trace` and `ranks`: what the ranks of a run did, operation by operation, and what they are doing now."""

import time
from pathlib import Path

import click

from engine.cli.answers import duration, print_json, say, table
from engine.cli.frame import json_option, owner_option
from engine.errors import ConfigError, Problem
from engine.home import Home
from engine.store import Reader, Store
from engine.store.records import ENDED
from engine.trace.health import Health, listed
from engine.transfer.tables import complete_file
from engine.umask import given

EVERY_S = 1.0
SEEN_S = 1.5
"""Seconds until a worker has seen a request, and until it has written what was asked for."""


@click.command("trace")
@click.argument("run_id", metavar="ID", type=int)
@click.option(
    "--out",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file to write (Chrome trace JSON, for ui.perfetto.dev or chrome://tracing).",
)
@click.option(
    "--record", "seconds", type=float, metavar="SECONDS", help="First have a running run store all of the next seconds."
)
@owner_option
@json_option
def trace_command(run_id: int, path: Path | None, seconds: float | None, owner: str, as_json: bool) -> None:
    """Write the operations of a run's ranks as a Chrome trace: a thread per rank, arrows for messages.

    A run records all operations and stores samples: its start, a few steps now and then, and its end.
    """
    from engine.trace.chrome import chrome_lines  # NumPy, which most commands don't need
    from engine.trace.timeline import RunTrace

    if path is None and seconds is None:
        raise ConfigError([Problem("", "trace needs --out with a file, or --record with seconds.")])
    if seconds is not None:
        with Store.open(Home.find()) as store:
            store.runs.trace(run_id, seconds, by=owner)
        if path is None:
            say({"id": run_id, "seconds": seconds}, f"Run {run_id} stores all operations of {seconds:g} s.", as_json)
            return
        time.sleep(seconds + SEEN_S)
    assert path is not None
    with Reader.open(Home.find()) as reader:
        run = reader.runs.one(run_id)
        roles = [rank.role for rank in reader.details.ranks(run_id)]
        trace = RunTrace.of(reader.traces.windows(run_id), reader.traces.chunks(run_id), roles)
    if not len(trace):
        why = "It has not started." if not roles else "Runs of earlier versions have none."
        raise ConfigError([Problem("trace", f"Run {run_id} has no stored operations. {why}")])
    with given(), complete_file(path) as file:
        file.writelines(line.encode() for line in chrome_lines(trace, f"Run {run_id}, {run.experiment}"))
    found = {"path": str(path), "operations": len(trace), "messages": len(trace.messages.senders), "lost": trace.lost}
    lost = f" {trace.lost:,} operations were lost." if trace.lost else ""
    sentence = f"{len(trace):,} operations of {len(roles)} ranks written to {path}.{lost}"
    say(found, sentence, as_json)


@click.command("ranks")
@click.argument("run_id", metavar="ID", type=int)
@click.option("--watch", is_flag=True, help="Print again each second until the run ends.")
@json_option
def ranks_command(run_id: int, watch: bool, as_json: bool) -> None:
    """Show what each rank of a run is doing, whom it waits for, and whether one stands still."""
    while True:
        with Reader.open(Home.find()) as reader:
            run, health = reader.runs.one(run_id), reader.details.health_now(run_id)
        if as_json:
            print_json(health.plain())
        else:
            click.echo(_text(health))
        if not watch or run.status in ENDED:
            return
        time.sleep(EVERY_S)


def _text(health: Health) -> str:
    rows = [
        (
            rank.role,
            rank.pid,
            rank.state,
            rank.phase,
            "" if rank.operation == rank.phase else rank.operation,
            rank.step,
            listed(rank.waits_for),
            duration(rank.since_s),
            rank.place,
        )
        for rank in health.ranks
    ]
    headings = ("RANK", "PID", "PROCESS", "PHASE", "OPERATION", "STEP", "WAITS FOR", "QUIET", "PLACE")
    verdict = f"{health.verdict.state}. {health.verdict.sentence}".strip()
    return f"{table(headings, rows)}\n\n{verdict}" if rows else verdict
