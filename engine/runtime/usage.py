"""The use of the machine during a run: the part that others took of its cores, and CPU, memory and GPU of each rank."""

import os
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from heapq import nlargest

import psutil

from engine.access.quotas import MB
from engine.recorder import Point
from engine.store.curve_records import MachineSample
from engine.store.timestamps import now
from engine.system import cpu_use
from engine.system.machine import gpu_load

# ------------------------------------------------------------------------------------------------------------------
# The CPU time that others took from a run: its processes against all else on its cores, while its ranks work.

SCAN_S = 10.0
"""Seconds between looks at all processes of the machine, for the names of those that took CPU time."""
NAMED, LEAST_CORES = 3, 0.005
"""Most programs that are named, and the fewest cores that one must have used on average."""
Sampled = dict[tuple[str, str], float]
"""Values by source and name of the measurement."""


@dataclass(frozen=True)
class Counters:
    """What the kernel has counted so far; None where it doesn't show it."""

    at: float
    """Monotonic time, s."""
    own: cpu_use.ProcessUse | None
    cores: cpu_use.CoreUse | None
    throttled_s: float | None
    pressure_s: float | None
    thermal: int | None


def read_counters(own: Collection[int], cores: Collection[int]) -> Counters:
    """Return the counters of the processes `own` and of some cores."""
    return Counters(
        time.monotonic(),
        cpu_use.process_use(own),
        cpu_use.core_use(cores),
        cpu_use.throttled_s(),
        cpu_use.memory_pressure_s(),
        cpu_use.thermal_events(cores),
    )


@dataclass
class Disturbance:
    """The CPU time that others took from a run, from `begin` on.

    A run that is not bound to its cores may use any of `cores`; then others take something from it only beyond the
    cores that it leaves free.
    """

    demand: int
    """Number of cores that the run was given."""
    cores: Collection[int]
    read: Callable[[Collection[int], Collection[int]], Counters] = read_counters
    scan: Callable[[Collection[int]], Mapping[int, tuple[str, float]]] = cpu_use.programs
    members: Callable[[], Collection[int]] = lambda: [child.pid for child in psutil.Process().children(recursive=True)]
    """Returns the run's other processes, such as fork servers, which count the time of ranks that have ended."""
    _pids: set[int] = field(default_factory=set)
    _first: Counters | None = None
    _last: Counters | None = None
    _taken_s: float = 0.0
    _others_s: float = 0.0
    _is_hidden: bool = False
    _programs: dict[int, tuple[str, float]] = field(default_factory=dict)
    _by_program: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    _scanned_at: float = 0.0

    def include(self, pids: Collection[int]) -> None:
        """Count these processes as the run's too: its ranks, where they start later than the run."""
        self._pids |= set(pids)

    def begin(self, pids: Collection[int]) -> None:
        """Count from now on; `pids` are the run's ranks."""
        self._pids = {*pids, os.getpid(), *self.members()}
        self._first = self._last = self.read(self._pids, self.cores)
        self._programs, self._scanned_at = dict(self.scan(self._pids)), self._first.at

    def sample(self) -> Sampled:
        """Count up to now, and return what was used per second since the last sample."""
        if self._last is None:
            return {}
        before, now = self._last, self.read(self._pids, self.cores)
        wall = now.at - before.at
        if wall <= 0:
            return {}
        if now.at - self._scanned_at >= SCAN_S:
            self._add_up_programs(now.at)
        self._last = now
        found: Sampled = {}
        if before.own and now.own:
            own_s = max(0.0, now.own.cpu_s - before.own.cpu_s)
            found["run", "cores"] = own_s / wall
            found["run", "page_faults"] = max(0, now.own.faults - before.own.faults) / wall
            if before.cores and now.cores:
                stolen_s = max(0.0, now.cores.stolen_s - before.cores.stolen_s)
                others_s = max(0.0, now.cores.used_s - before.cores.used_s - own_s)
                found |= {("others", "cores"): others_s / wall, ("stolen", "cores"): stolen_s / wall}
                free_s = max(0, len(self.cores) - self.demand) * wall
                self._others_s += others_s
                self._taken_s += max(0.0, others_s - free_s) + stolen_s * self.demand / len(self.cores)
            else:
                self._is_hidden = True
        for place, factor, old, new in (
            (("run", "throttled_percent"), 100, before.throttled_s, now.throttled_s),
            (("host", "memory_wait_percent"), 100, before.pressure_s, now.pressure_s),
            (("host", "thermal_events"), 1, before.thermal, now.thermal),
        ):
            if old is not None and new is not None:
                found[place] = factor * max(0.0, new - old) / wall
        return found

    @property
    def percent(self) -> float | None:
        """The disturbance so far, in percent of the CPU time that the run was given; None if it is unknown."""
        if self._first is None or self._last is None or self._is_hidden or not (self._first.own and self._first.cores):
            return None
        assert self._last.own and self._last.cores
        wall = self._last.at - self._first.at
        own_s = self._last.own.cpu_s - self._first.own.cpu_s
        used_s = self._last.cores.used_s - self._first.cores.used_s
        if wall <= 0 or used_s < 0.5 * own_s:  # counters that miss half of the run's own time are not the machine's
            return None
        return min(100.0, 100 * self._taken_s / (wall * self.demand))

    def points(self, step: int, time_s: float, passes: float | None) -> list[Point]:
        """Return the sums as the run's own points."""
        if self._first is None or self._last is None:
            return []
        first, last = self._first, self._last
        values: dict[str, float | None] = {"perf/disturbance": self.percent}
        if first.own and last.own:
            values["perf/cpu_time_s"] = last.own.cpu_s - first.own.cpu_s
            values["perf/page_faults"] = max(0, last.own.faults - first.own.faults)
        if first.cores and last.cores and not self._is_hidden:
            values["perf/others_cpu_time_s"] = self._others_s
            values["perf/stolen_time_s"] = last.cores.stolen_s - first.cores.stolen_s
        if first.throttled_s is not None and last.throttled_s is not None:
            values["perf/throttled_time_s"] = last.throttled_s - first.throttled_s
        if first.pressure_s is not None and last.pressure_s is not None:
            values["perf/memory_wait_s"] = last.pressure_s - first.pressure_s
        return [Point(name, step, value, time_s, passes) for name, value in values.items() if value is not None]

    def programs(self) -> Sequence[tuple[str, float]]:
        """Return the programs that took most CPU time beside the run up to the last sample, with the cores that each
        used on average; call right after it.
        """
        if self._first is None or self._last is None:
            return []
        self._add_up_programs(self._last.at)
        wall = max(1e-3, self._last.at - self._first.at)
        most = nlargest(NAMED, self._by_program.items(), key=lambda named: named[1])
        return [(name, round(seconds / wall, 4)) for name, seconds in most if seconds / wall >= LEAST_CORES]

    def _add_up_programs(self, at: float) -> None:
        """Find new processes of the run, and add up what the others' took since the last look."""
        self._scanned_at = at
        self._pids |= set(self.members())
        now = dict(self.scan(self._pids))
        for pid, (name, seconds) in now.items():
            _, before = self._programs.get(pid, (name, 0.0))
            self._by_program[name] += max(0.0, seconds - before)
        self._programs = now


# ---- The machine during a run: CPU, memory and GPU, of the host and of each rank -----------------------------------

EVERY_S = 1.0


class Telemetry:
    """Samples the host, its GPUs and the given processes, or their trees, at most once in `EVERY_S`."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._processes: dict[int, psutil.Process] = {}
        self._trees: Mapping[int, Collection[int]] = {}
        self.follow({pid: (pid,) for pid in pids})
        self._latest: dict[int, tuple[float, float]] = {}
        self._sampled_at = 0.0
        psutil.cpu_percent()  # the first call only sets the reference for the next one

    def follow(self, trees: Mapping[int, Collection[int]]) -> None:
        """Sample these ranks from now on: for each of their pids, those of its whole process tree."""
        self._trees = trees
        known, self._processes = self._processes, {}
        for pid in {each for tree in trees.values() for each in tree}:
            with suppress(psutil.Error):
                if pid not in known:
                    process = psutil.Process(pid)
                    process.cpu_percent()  # the first call only sets the reference for the next one
                    known[pid] = process
                self._processes[pid] = known[pid]

    def due(self) -> bool:
        """Return whether a sample is due."""
        return time.monotonic() - self._sampled_at >= EVERY_S

    def sample(self) -> list[MachineSample]:
        """Return current host and GPU numbers, and store those of each rank for `of`."""
        self._sampled_at = time.monotonic()
        at = now()
        memory = psutil.virtual_memory()
        values = [
            ("host", "cpu_percent", psutil.cpu_percent()),
            ("host", "memory_mb", memory.used / MB),
            ("host", "memory_percent", memory.percent),
        ]
        used: dict[int, tuple[float, float]] = {}
        for pid, process in self._processes.items():
            with suppress(psutil.Error), process.oneshot():
                if resident := process.memory_info().rss:  # 0 of one that has ended: the sample before it stays
                    used[pid] = (resident / MB, process.cpu_percent())
        for leader, tree in self._trees.items():
            if found := [used[pid] for pid in tree if pid in used]:
                self._latest[leader] = (sum(memory for memory, _ in found), sum(cpu for _, cpu in found))
        own = (os.getpid(), *self._processes)  # the worker may hold shared tensors on a GPU
        for index, load in gpu_load(own).items():
            values += [(f"gpu{index}", name, value) for name, value in load.items()]
        return [MachineSample(at, source, name, float(value)) for source, name, value in values]

    def of(self, pid: int) -> tuple[float | None, float | None]:
        """Return a rank's resident memory (MB) and CPU use (percent of one core) as last sampled, of its whole tree."""
        return self._latest.get(pid, (None, None))
