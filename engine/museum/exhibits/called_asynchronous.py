"""Asynchronous in name only: a fault of async_sgd.

source: The blog series on parallel SGD: the parameter server that it calls asynchronous
wrong: Calls return futures, so no RPC thread blocks. But the update waits for a gradient from every trainer, and every
    trainer waits for the update: this is synchronous SGD.
right: Each gradient is applied on arrival and its staleness is recorded: the number of updates by others between its
    fetch and its push.
seen: Trainer1 of four takes four times as long per step. With the barrier, no gradient is stale and all trainers run at
    trainer1's pace; applied immediately, gradients are stale, and half of them arrive sooner.
chart: Staleness (updates) against Gradient, in order of arrival
values: staleness = Mean staleness (updates); half_s = Time to half of all gradients (s)
rule: staleness > 0
broken: Mean staleness of N asynchronous trainers must be near N - 1; got 0. A staleness that is always 0 means
    synchronous SGD.
guard: tests/experiments/servers/test_servers.py::test_equal_trainers_in_turn_have_a_staleness_of_n_minus_1
"""

import time
from threading import Barrier, Lock

from engine.museum.exhibit import Outcome, Version, crowd

TRAINERS, STEPS = 4, 20
STEP_S, SLOW_S = 0.004, 0.016
"""Duration of a step; trainer1's is four times as long."""


class Server:
    """Counts updates, and records each gradient's staleness: the updates between its fetch and its push."""

    def __init__(self) -> None:
        self.version, self.lock, self.everyone = 0, Lock(), Barrier(TRAINERS, self.update)
        self.staleness: list[int] = []
        self.pushed_at: list[float] = []

    def update(self) -> None:
        """Apply what has been pushed."""
        self.version += 1

    def take(self, fetched: int) -> None:
        """Record one gradient computed at version `fetched`."""
        self.staleness.append(self.version - fetched)
        self.pushed_at.append(time.perf_counter())


def wrong(server: Server, fetched: int) -> None:
    with server.lock:
        server.take(fetched)
    server.everyone.wait()  # the last one updates


def right(server: Server, fetched: int) -> None:
    with server.lock:
        server.take(fetched)
        server.update()


def measure(seed: int, push: Version) -> Outcome:
    """Let four trainers make their steps; the chart is the staleness of each gradient."""
    server, began = Server(), time.perf_counter()

    def train(place: int) -> None:
        for _ in range(STEPS):
            fetched = server.version
            time.sleep(SLOW_S if place == 0 else STEP_S)
            push(server, fetched)

    crowd(TRAINERS, train)
    half_s = sorted(server.pushed_at)[TRAINERS * STEPS // 2] - began
    mean = sum(server.staleness) / len(server.staleness)
    return Outcome({"staleness": mean, "half_s": half_s}, dict(enumerate(server.staleness, 1)))
