"""The hang doctor of a command: which of its ranks has printed nothing, recorded nothing and used no CPU for long.

Nothing in the script helps: stacks come from py-spy, where it is installed and may look at the process. Torch-free.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from engine.errors import enumeration
from engine.hang.stacks import stack_file
from engine.hang.watch import process_state
from engine.store.timestamps import now
from engine.trace.health import Health, RankState, Verdict

QUIET_S = 60.0
"""Seconds that a rank may be quiet, unless the environment variable `PARALLAB_HANG_S` names others: a script may wait
for a download or for another machine.
"""
WORKS_PERCENT = 3.0
"""CPU use, in percent of a core, from which on a rank works at the moment."""
IDLE_PERCENT = 0.5
"""Average CPU use up to which a rank is quiet: what the idle threads of a process use. A rank that computes little
between long waits, or on a machine that is full, is above it.
"""
STACKS_S = 10
"""Seconds that py-spy may take for one process."""
STANDARD = sys.stdlib_module_names
_FRAME = re.compile(r"^\s+(?P<function>\S.*) \((?P<file>[^():]+):(?P<line>\d+)\)$")
_WORDS = {"stopped": "it is stopped (SIGSTOP)", "disk wait": "it waits for a disk", "dead": "its process has ended"}


class SignsOfLife(Protocol):
    """A rank as the watch sees it."""

    rank: int
    role: str
    pid: int
    last_step: int | None
    cpu_percent: float | None


@dataclass
class _Sign:
    """The last sign of life of a rank."""

    seen: tuple[int, int, int | None]
    """Its process, how much it had printed, its step."""
    at: float
    percent: float = 0.0
    """CPU use since then, in percent of a core: a running average over the time limit."""


@dataclass
class StandstillWatch:
    """Looks at a command's ranks, each second or so; `health` is the last result."""

    folder: Path
    """The run's folder."""
    quiet_s: float = field(default_factory=lambda: float(os.environ.get("PARALLAB_HANG_S") or QUIET_S))
    clock: Callable[[], float] = time.monotonic
    health: Health | None = field(default=None, init=False)
    _signs: dict[int, "_Sign"] = field(default_factory=dict, init=False)
    """The last sign of life of each rank."""
    _looked_at: float | None = field(default=None, init=False)
    _places: dict[str, str] = field(default_factory=dict, init=False)
    """Where the ranks of the present standstill are, by role; empty for those that py-spy could not look at."""

    def look(self, ranks: Sequence[SignsOfLife]) -> Verdict:
        """Return what is wrong with the ranks, or that nothing is."""
        at = self.clock()
        passed_s = at - self._looked_at if self._looked_at is not None else 0.0
        if passed_s > max(5.0, self.quiet_s / 4):
            self._signs = {}  # this process itself was stopped, and the ranks may have been so too
        self._looked_at = at
        states = [self._state(each, at, passed_s) for each in ranks]
        verdict = self._verdict(states)
        if verdict.state == "RUNNING":
            self._places = {}
        self.health = Health(now(), tuple(states), verdict)
        return verdict

    def _state(self, rank: SignsOfLife, at: float, passed_s: float) -> RankState:
        log = self.folder / "logs" / f"{rank.role}.log"
        try:
            printed = log.stat().st_size
        except OSError:
            printed = 0
        seen, percent = (rank.pid, printed, rank.last_step), rank.cpu_percent or 0.0
        works = percent >= WORKS_PERCENT
        sign = self._signs.get(rank.rank)
        if sign is not None:
            sign.percent += (percent - sign.percent) * min(1.0, passed_s / self.quiet_s)
        if sign is None or sign.seen != seen or works or sign.percent > IDLE_PERCENT:
            sign = self._signs[rank.rank] = _Sign(seen, at)
        since_s = round(at - sign.at, 1)
        return RankState(
            rank.rank,
            rank.role,
            rank.pid,
            process_state(rank.pid),
            "",
            "",
            rank.last_step or 0,
            since_s=since_s,
            works=works,
            place=self._places.get(rank.role, ""),
        )

    def _verdict(self, states: Sequence[RankState]) -> Verdict:
        quiet = [each for each in states if each.since_s >= self.quiet_s]
        if not quiet:
            return Verdict("RUNNING")
        self._take_stacks([each for each in quiet if each.role not in self._places])
        halted = [each for each in quiet if each.state in _WORDS]
        named = halted or quiet
        first, all_quiet = named[0], len(quiet) == len(states)
        cause = first.state if halted else "stuck"
        why = f": {_WORDS[first.state]}" if halted else ""
        sentence = (
            f"{enumeration([each.role for each in named])} printed nothing, recorded nothing and used no CPU time for "
            f"{min(each.since_s for each in named):.0f} s{why}{self._where(named)}."
        )
        sentence = sentence[0].upper() + sentence[1:]
        return Verdict("HUNG" if all_quiet else "STALLED", first.role if len(named) == 1 else "", cause, sentence)

    def _where(self, ranks: Sequence[RankState]) -> str:
        places = [f"{each.role} in {place}" for each in ranks if (place := self._places.get(each.role))]
        return f" ({', '.join(places)})" if places else ""

    def _take_stacks(self, ranks: Sequence[RankState]) -> None:
        """Have py-spy write the stacks of ranks that are not stopped into their files, as ranks of ours write them."""
        program = shutil.which("py-spy")
        for rank in ranks:
            self._places[rank.role] = ""
            if program and rank.state not in ("stopped", "dead"):
                with suppress(OSError, subprocess.TimeoutExpired):
                    dumped = subprocess.run(
                        [program, "dump", "--nonblocking", "--pid", str(rank.pid)],
                        capture_output=True,
                        text=True,
                        timeout=STACKS_S,
                    )
                    if text := dumped.stdout:
                        path = stack_file(self.folder, rank.role)
                        path.parent.mkdir(mode=0o700, exist_ok=True)
                        path.write_text(text)
                        self._places[rank.role] = place_of(text)


def place_of(dumped: str) -> str:
    """Return where the main thread is, from what py-spy wrote: "take(), batches.py:52", the innermost frame outside of
    libraries, whose files it names by a folder.
    """
    main = dumped.partition('"MainThread"')[2].partition("\nThread ")[0]
    frames = [found for line in main.splitlines() if (found := _FRAME.match(line))]
    own = [each for each in frames if "/" not in each["file"] and Path(each["file"]).stem not in STANDARD] or frames
    return f"{own[0]['function']}(), {Path(own[0]['file']).name}:{own[0]['line']}" if own else ""
