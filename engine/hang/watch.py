"""The hang doctor's watch over a run, in its worker: looks at all ranks, and keeps the verdict and its evidence."""

import logging
import math
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil

from engine.errors import ConfigError, EngineError
from engine.hang.rules import HALTED, TOGETHER, Doing, RunState, edges, judge
from engine.hang.stacks import StackRequest, place_of
from engine.store.timestamps import now
from engine.system.run_files import LOCK_SUFFIX
from engine.trace.health import BAD, Health, ProcessState, RankState, Verdict
from engine.trace.ring_reader import OpenOperation, TraceReader

log = logging.getLogger(__name__)
STATES: dict[str, ProcessState] = {
    psutil.STATUS_RUNNING: "running",
    psutil.STATUS_STOPPED: "stopped",
    psutil.STATUS_TRACING_STOP: "stopped",
    psutil.STATUS_DISK_SLEEP: "disk wait",
    psutil.STATUS_ZOMBIE: "dead",
    psutil.STATUS_DEAD: "dead",
}
SHORT_S = 0.3
"""Seconds without progress up to which a rank's process is not looked at."""
WORKS, USES, LEAST_S = 0.2, 0.03, 0.5
"""A quiet rank works if its threads used or waited for a core for at least the first share of a time, and used one for
the second: threads that do next to nothing wait long for a core on a busy machine. Seconds of such a time at least.
"""


VARIABLE = "PARALLAB_HANG_S"
"""The environment variable for `HangLimits.quiet_s`."""


def _seconds() -> float:
    """Return the seconds in the environment variable; raises ConfigError if they are none."""
    text = os.environ.get(VARIABLE, "").strip() or "10"
    with suppress(ValueError):
        if 0.1 <= (found := float(text)) <= 1e6:
            return found
    rule = f"{VARIABLE} must be a number of seconds from 0.1 to 1,000,000; got '{text}'."
    raise ConfigError.of(VARIABLE, f"{rule} Correct it in the runner's environment, or unset it.")


@dataclass(frozen=True)
class HangLimits:
    """When a rank counts as quiet, and how often a bad verdict is to be found."""

    quiet_s: float = field(default_factory=_seconds)
    steps: float = 20.0
    """Steps of the run (their median over ranks) that a rank may take at least."""
    looks: int = 3
    between_s: float = 2.0
    every_s: float = 0.25
    start_s: float = 60.0
    """Seconds that the process of a rank may take to begin: imports from a cold disk are no standstill."""
    outside_s: float = 300.0
    """Seconds that a rank may wait for something outside the run, such as the disk that its data is on."""


@dataclass
class WatchedRank:
    """One rank as the watch sees it; `ended` says whether it is done or was given up."""

    rank: int
    role: str
    pid: int
    trace: TraceReader
    ended: Callable[[], bool]
    exited: Callable[[], bool] = lambda: False
    """Whether it is done, so that nothing comes from it any more."""
    reported: Callable[[], tuple[ProcessState, float, float]] | None = None
    """For a rank on another node: the state of its process and its `busy_s`, as last reported from there."""
    moved: tuple[int, int] = (0, 0)
    moved_at: float = 0.0
    busy: tuple[float, float, float] | None = None
    """A time at which the rank was quiet, and for how long its threads had used, and waited for, a core until then."""
    worked_at: float = 0.0
    first_step: tuple[int, float] | None = None
    first_look_at: float = 0.0

    def look(self, at: float, start_s: float) -> None:
        """Note whether the rank has made progress; one whose process is just starting has."""
        moved = (self.trace.moved, self.trace.step)
        self.first_look_at = self.first_look_at or at
        starts = not self.trace.has_begun and at - self.first_look_at < start_s
        if moved != self.moved or not self.moved_at or starts:
            self.moved, self.moved_at, self.busy = moved, at, None
        if self.first_step is None and self.trace.step:
            self.first_step = (self.trace.step, at)

    def step_s(self, at: float) -> float:
        """Return the mean duration of the rank's steps; 0 if it isn't known."""
        if self.first_step is None or self.trace.step <= self.first_step[0]:
            return 0.0
        return (self.moved_at - self.first_step[1]) / (self.trace.step - self.first_step[0])

    def state(self, doing: Doing, at: float, limit_s: float) -> RankState:
        """Return the rank's state, without whom it waits for."""
        outer, inner = next(iter(doing.main), None), doing.innermost
        quiet_s = max(0.0, at - self.moved_at)
        process = self._process(quiet_s)
        return RankState(
            self.rank,
            self.role,
            self.pid,
            process,
            outer.kind if outer else "",
            _in_words(inner) if inner else "",
            self.trace.step,
            since_s=0.0 if self.ended() else round(quiet_s, 1),
            works=quiet_s > SHORT_S and process not in HALTED and self._works(doing, at, limit_s),
        )

    def _works(self, doing: Doing, at: float, limit_s: float) -> bool:
        """Return whether the rank was busy with its own work at a look within the limit."""
        if self.ended() or (doing.wait is not None and not doing.serves):
            self.busy = None
            return False
        if self.busy is None or at - self.busy[0] >= max(LEAST_S, limit_s / 10):
            before, self.busy = self.busy, (at, *(self.reported()[1:] if self.reported else busy_s(self.pid)))
            if before is not None and works(*(new - old for new, old in zip(self.busy, before, strict=True))):
                self.worked_at = at
        return at - self.worked_at < limit_s

    def _process(self, quiet_s: float) -> ProcessState:
        if self.ended():
            return "ended"
        if quiet_s < SHORT_S:
            return "running"
        return self.reported()[0] if self.reported else process_state(self.pid)


def process_state(pid: int) -> ProcessState:
    """Return the state of a process of this machine."""
    try:
        return STATES.get(psutil.Process(pid).status(), "sleeping")
    except psutil.Error:
        return "dead"


def works(over_s: float, used_s: float, waited_s: float) -> bool:
    """Return whether a rank worked in a time, in which its threads used a core and waited for one."""
    return used_s > USES * over_s and used_s + waited_s > WORKS * over_s


def busy_s(pid: int) -> tuple[float, float]:
    """Return the seconds in which the threads of a process and of its children have used a core, and have waited for
    one; 0 if it is gone.

    Threads of TensorPipe don't count: they are busy while they wait for messages.
    """
    threads = Path(f"/proc/{pid}/task")
    if not (threads / str(pid) / "schedstat").exists():  # not Linux
        with suppress(psutil.Error):
            times = psutil.Process(pid).cpu_times()
            return times.user + times.system, 0.0
        return 0.0, 0.0
    used_s = waited_s = 0.0
    children: list[int] = []
    for thread in threads.iterdir():
        with suppress(OSError):  # it has just ended
            if not (thread / "comm").read_text().startswith("TP_"):
                used, waited, _ = (thread / "schedstat").read_text().split()
                used_s, waited_s = used_s + int(used) / 1e9, waited_s + int(waited) / 1e9
            children += map(int, (thread / "children").read_text().split())  # not in every kernel
    for child in children:
        theirs = busy_s(child)
        used_s, waited_s = used_s + theirs[0], waited_s + theirs[1]
    return used_s, waited_s


def _in_words(operation: OpenOperation) -> str:
    """Return what an operation is called: "push #74", "collective average #8", "compute"."""
    named = operation.name and operation.kind in (*TOGETHER, "lock", "queue")
    name = f"{operation.kind} {operation.name}" if named else operation.name or operation.kind
    return f"{name} #{operation.number}" if operation.number else name


class HangWatch:
    """Looks at the ranks of a run; `health` is the last result."""

    def __init__(
        self,
        ranks: Sequence[WatchedRank],
        folder: Path,
        tell: Callable[[Verdict], None],
        limits: HangLimits | None = None,
    ) -> None:
        self._ranks = ranks
        self._folder = folder
        self._tell = tell
        self._limits = limits or HangLimits()
        self._looked_at = 0.0
        self._suspect: tuple[str, str, str] | None = None
        self._found, self._found_at = 0, 0.0
        self._told: tuple[str, str, str] | None = None
        self._requests: dict[int, StackRequest] = {}
        self.started = False
        self.health: Health | None = None

    def look_if_due(self) -> None:
        """Look at the ranks, at most once in `every_s`."""
        at = time.monotonic()
        if at - self._looked_at >= self._limits.every_s:
            if at - self._looked_at > 3 * self._limits.every_s + self._limits.quiet_s / 4:
                self._forgive(at)
            self._looked_at = at
            try:
                self._look(at)
            except EngineError:  # the store takes the verdict later
                raise
            except Exception:  # a fault of the doctor's own must not fail the run
                log.exception("the hang doctor failed at a look and takes no further one; the run continues")
                self._looked_at = math.inf

    def stacks_of(self, role: str) -> str:
        """Return the stacks of a rank, or of all ranks for an empty role, as far as they were written."""
        return "\n".join(
            f"{rank.role}:\n{self._requests[rank.rank].text()}"
            for rank in self._ranks
            if rank.rank in self._requests and role in ("", rank.role)
        )

    def _forgive(self, at: float) -> None:
        """Count from now on: this process itself was stopped, and its ranks may have been so too."""
        for rank in self._ranks:
            rank.moved_at = at

    def _look(self, at: float) -> None:
        here = [rank for rank in self._ranks if not rank.ended()]
        for rank in here:
            rank.look(at, self._limits.start_s)
        doing = {rank.rank: Doing.of(rank.trace.open_operations()) for rank in here}
        roles = {rank.rank: rank.role for rank in self._ranks}
        limit_s = self._limit_s(at)
        states = [rank.state(doing.get(rank.rank, Doing()), at, limit_s) for rank in self._ranks]
        elsewhere = {rank.rank for rank in self._ranks if rank.reported}
        for state in states:
            if state.rank in {*self._requests} - elsewhere and state.rank in doing and state.state not in HALTED:
                with suppress(OSError):
                    self._requests[state.rank].insist(state.pid)
        halted = [state.rank for state in states if state.state in HALTED]
        exited = [rank.rank for rank in self._ranks if rank.exited()]
        graph = edges(doing, halted, self._holders(doing), exited)
        states = [
            replace(
                state,
                waits_for=tuple(roles[other] for other in sorted(graph.get(state.rank, ()))),
                place=place_of(self._requests[state.rank].text()) if state.rank in self._requests else "",
            )
            for state in states
        ]
        verdict = self._confirmed(
            judge(RunState(states, doing, graph, limit_s, self.started, max(limit_s, self._limits.outside_s))), at
        )
        self.health = Health(now(), tuple(states), verdict)

    def _holders(self, doing: Mapping[int, Doing]) -> dict[str, int]:
        """Return the ranks that hold the locks which others wait for."""
        names = {wait.name for each in doing.values() if (wait := each.wait) is not None and wait.kind == "lock"}
        return holders(self._folder, names, {rank.pid: rank.rank for rank in self._ranks}) if names else {}

    def _limit_s(self, at: float) -> float:
        steps = sorted(step for rank in self._ranks if (step := rank.step_s(at)))
        return max(self._limits.quiet_s, self._limits.steps * steps[len(steps) // 2] if steps else 0.0)

    def _confirmed(self, verdict: Verdict, at: float) -> Verdict:
        """Return a bad verdict only once it was found in several looks; ask for the stacks at the first one."""
        if verdict.state not in BAD:
            self._suspect, self._found, self._requests = None, 0, {}
            self._told = None
            return verdict
        key = (verdict.state, verdict.rank, verdict.cause)
        if self._suspect is None or self._suspect[0] != key[0]:
            self._suspect, self._found, self._found_at = key, 1, at
            self._ask_for_stacks()
        elif at - self._found_at >= self._limits.between_s:
            self._suspect, self._found, self._found_at = key, self._found + 1, at
        if self._found < self._limits.looks:
            return Verdict("WAITING", verdict.rank, "suspected", f"Suspected, to be confirmed: {verdict.sentence}")
        if self._told != key:
            self._tell(verdict)
            self._told = key
        return verdict

    def _ask_for_stacks(self) -> None:
        for rank in self._ranks:
            if not rank.ended():
                with suppress(OSError):
                    self._requests[rank.rank] = StackRequest(self._folder, rank.role, rank.trace.ask_for_stacks)


# ------------------------------------------------------------------------------------------------------------------
# Which rank holds a lock of the run, from the kernel's table of file locks: taking a lock costs nothing for it.

TABLE = Path("/proc/locks")


def holders(folder: Path, names: Collection[str], ranks: Mapping[int, int]) -> dict[str, int]:
    """Return the rank that holds each of these locks, if one does; `ranks` are by process id."""
    by_inode = {}
    for name in names:
        try:
            by_inode[(folder / f"{name}{LOCK_SUFFIX}").stat().st_ino] = name
        except OSError:
            continue
    try:
        lines = TABLE.read_text().splitlines() if by_inode else []
    except OSError:  # not Linux
        return {}
    found = {}
    for words in map(str.split, lines):
        if "->" in words or len(words) < 6:  # a process that waits for the lock above
            continue
        pid, inode = words[4], words[5].rpartition(":")[2]
        if inode.isdecimal() and int(inode) in by_inode and int(pid) in ranks:
            found[by_inode[int(inode)]] = ranks[int(pid)]
    return found
