"""Programs outside of all runs and of this lab that use this machine's CPU now."""

import os
import time
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from threading import Lock

import psutil

from engine.store.records import ProcessIdentity, Run
from engine.system import cpu_use
from engine.system.processes import is_alive, session_members

AT_LEAST_S, AT_MOST_S = 2.0, 120.0
"""Limits of the interval between two samples; after a longer one nothing is shown until the next."""
NAMED, LEAST_CORES = 3, 0.1
"""Most programs that are named, and the fewest cores that one must use."""


@dataclass
class OtherPrograms:
    """CPU use of other programs between the last two samples, shared by all viewers of this console."""

    _seen: Mapping[int, tuple[str, float]] = field(default_factory=dict)
    _seen_at: float = float("-inf")
    _busiest: Sequence[tuple[str, float]] = ()
    _lock: Lock = field(default_factory=Lock)

    def busiest(self, holders: Sequence[Run], runner: ProcessIdentity | None) -> Sequence[tuple[str, float]]:
        """Return the names of the busiest programs outside of these runs, the lab's runner and this console, and how
        many cores each uses.
        """
        with self._lock:
            passed = time.monotonic() - self._seen_at
            if passed >= AT_LEAST_S:
                now = cpu_use.programs({*_pids(holders), *_of_lab(runner)})
                self._busiest = _difference(self._seen, now, passed) if passed <= AT_MOST_S else ()
                self._seen, self._seen_at = now, time.monotonic()
            return self._busiest


def _pids(holders: Sequence[Run]) -> Collection[int]:
    return {pid for run in holders if run.worker for pid in session_members(run.worker)}


def _of_lab(runner: ProcessIdentity | None) -> Collection[int]:
    """Return the pids of the runner and of this console, with all that they started, such as the spare worker."""
    found: set[int] = set()
    for pid in (os.getpid(), *([runner.pid] if runner and is_alive(runner) else [])):
        try:
            found |= {pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))}
        except psutil.Error:
            continue
    return found


def _difference(
    before: Mapping[int, tuple[str, float]], now: Mapping[int, tuple[str, float]], seconds: float
) -> Sequence[tuple[str, float]]:
    used: dict[str, float] = defaultdict(float)
    for pid, (name, cpu_s) in now.items():
        if pid in before:
            used[name] += max(0.0, cpu_s - before[pid][1]) / seconds
    found = [(name, cores) for name, cores in used.items() if cores >= LEAST_CORES]
    return nlargest(NAMED, found, key=lambda each: each[1])


others = OtherPrograms()
