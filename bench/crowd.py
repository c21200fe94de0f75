"""Many watchers in one process, when each batch of points was committed, and the lag between the two."""

import asyncio
import threading
import time
from bisect import bisect_left
from collections.abc import Sequence
from contextlib import suppress
from statistics import median, quantiles

from bench.watching import Watcher
from engine.home import Home
from engine.store import Reader

LOOK_S = 0.02


class Commits(threading.Thread):
    """Notes between which two looks each batch of points and each version of a run was committed, until told to stop;
    the earlier look counts.
    """

    def __init__(self, home: Home, run_id: int) -> None:
        super().__init__(daemon=True)
        self.home, self.run_id = home, run_id
        self.points: list[tuple[int, float]] = []
        """(highest point id, the last moment at which it was not yet there)."""
        self.versions: list[tuple[int, float]] = []
        self.looks: list[float] = []
        self.over = threading.Event()

    def run(self) -> None:
        """Look at the run until told to stop."""
        with Reader.open(self.home) as reader:
            while not self.over.wait(LOOK_S):
                self.looks.append(time.time())
                version, last_id = reader.db.rows(
                    "SELECT version, last_point_id FROM runs WHERE id = ?", [self.run_id]
                )[0]
                for noted, found in ((self.points, last_id), (self.versions, version)):
                    if not noted or found > noted[-1][0]:
                        noted.append((found, self.looks[-2:][0]))


class Crowd(threading.Thread):
    """The watchers, in an event loop of their own."""

    def __init__(self, address: str, run_id: int, count: int, join_s: float) -> None:
        super().__init__(daemon=True)
        self.watchers = [Watcher(address, run_id) for _ in range(count)]
        self.join_s = join_s
        self._loop = asyncio.new_event_loop()
        self._all: asyncio.Task[None] | None = None

    def run(self) -> None:
        """Watch until `leave`."""
        self._all = self._loop.create_task(self._watch())
        with suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._all)
        self._loop.close()

    async def _watch(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for watcher in self.watchers:
                tasks.create_task(watcher.watch())
                await asyncio.sleep(self.join_s / len(self.watchers))

    def reruns(self) -> int:
        """Return how many script runs the server has made for them."""
        return sum(watcher.reruns for watcher in self.watchers)

    def holds(self, last_id: int, version: int) -> bool:
        """Say whether every watcher holds the points up to an id, and knows a version of the run."""
        seen = [(watcher.points[-1:], watcher.versions[-1:]) for watcher in self.watchers]
        return all(
            points and points[0][1] >= last_id and versions and versions[0][1] >= version for points, versions in seen
        )

    def leave(self) -> None:
        """Close every page."""
        if self._all:
            self._loop.call_soon_threadsafe(self._all.cancel)
        self.join(30)


def lags(
    commits: Sequence[tuple[int, float]], held: Sequence[tuple[float, int]], start: float, end: float
) -> list[float]:
    """Return for each batch committed in [start, end] the seconds until it was held; infinite where it never was."""
    ids = [last_id for _, last_id in held]
    found = []
    for last_id, at in commits:
        if start <= at <= end:
            place = bisect_left(ids, last_id)
            found.append(held[place][0] - at if place < len(held) else float("inf"))
    return found


def told(values: Sequence[float]) -> dict[str, float]:
    """Return median, p95, p99 and greatest of seconds."""
    cuts = quantiles(values, n=100, method="inclusive")
    return {
        "median": round(median(values), 3),
        "p95": round(cuts[94], 3),
        "p99": round(cuts[98], 3),
        "max": round(max(values), 3),
        "of": len(values),
    }
