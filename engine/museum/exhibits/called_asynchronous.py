"""A server called asynchronous that waits for all: no gradient is stale, and the slowest trainer sets the pace."""

import threading
import time
from collections.abc import Callable

from engine.museum.outcome import Broken, ExhibitOutcome
from engine.museum.threads import crowd

TRAINERS, STEPS = 4, 20
STEP_S, SLOW_S = 0.004, 0.016
"""Duration of a step; trainer1's is four times as long."""


class Server:
    """Counts updates, and records each gradient's staleness: the updates between its fetch and its push."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.version = 0
        self.staleness: list[int] = []
        self.pushed_at: list[float] = []

    def take(self, fetched: int) -> None:
        """Record one gradient computed at version `fetched`."""
        self.staleness.append(self.version - fetched)
        self.pushed_at.append(time.perf_counter())


def wrong(seed: int) -> ExhibitOutcome:
    """Collect a gradient from each trainer, then update once: futures block no thread, but every trainer waits."""
    server = Server()
    everyone = threading.Barrier(TRAINERS, action=lambda: setattr(server, "version", server.version + 1))

    def push(fetched: int) -> None:
        with server.lock:
            server.take(fetched)
        everyone.wait()

    return _trained(server, push)


def right(seed: int) -> ExhibitOutcome:
    """Apply each gradient on arrival."""
    server = Server()

    def push(fetched: int) -> None:
        with server.lock:
            server.take(fetched)
            server.version += 1

    return _trained(server, push)


def _trained(server: Server, push: Callable[[int], None]) -> ExhibitOutcome:
    began = time.perf_counter()

    def train(place: int) -> None:
        for _ in range(STEPS):
            fetched = server.version
            time.sleep(SLOW_S if place == 0 else STEP_S)
            push(fetched)

    crowd(TRAINERS, train)
    half = sorted(server.pushed_at)[TRAINERS * STEPS // 2] - began
    mean = sum(server.staleness) / len(server.staleness)
    series = {number: float(stale) for number, stale in enumerate(server.staleness, 1)}
    return ExhibitOutcome({"staleness": mean, "half_s": half}, series)


def invariant(outcome: ExhibitOutcome) -> None:
    """Other trainers' updates occur between a fetch and its push."""
    if outcome.numbers["staleness"] == 0:
        raise Broken(
            "Mean staleness of N asynchronous trainers must be near N - 1; got 0. A staleness that is always 0 means "
            "synchronous SGD."
        )
