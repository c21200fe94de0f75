"""A server that waits for every trainer without checking that they are alive."""

import threading
import time
from collections.abc import Callable

from torch.futures import Future

from engine.museum.outcome import Broken, ExhibitOutcome

TRAINERS, BATCHES, SHORT, STEP_S = 4, 8, 3, 0.02
"""Each trainer has 8 mini-batches, trainer1 only 3."""
SLOT_MS, SLOTS, QUIET, MOST = 100, 10, 20, 100
"""The exhibit runs for 1 s, and longer while a trainer waits and updates follow within 2 s of each other."""


class Server:
    """A batching server: the last gradient of a round answers all waiting trainers."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.members = TRAINERS
        self.updates = 0
        self.arrived = 0
        self.answer: Future[int] = Future()

    def push(self) -> "Future[int]":
        """Accept a gradient; return the future that its trainer waits for."""
        with self.lock:
            self.arrived += 1
            answer = self.answer
            self.update_if_complete()
            return answer

    def leave(self) -> None:
        """Expect one trainer less from now on."""
        with self.lock:
            self.members -= 1
            self.update_if_complete()

    def update_if_complete(self) -> None:
        """Apply the round once all members' gradients have arrived; call under the lock."""
        if self.arrived and self.arrived >= self.members:
            self.updates, self.arrived = self.updates + 1, 0
            answer, self.answer = self.answer, Future()
            answer.set_result(self.updates)


def wrong(seed: int) -> ExhibitOutcome:
    """Let a trainer that has no more batches leave without signing off."""
    return _watched(lambda server: None)


def right(seed: int) -> ExhibitOutcome:
    """Let it sign off; the engine's server also drops a dead trainer after `timeout_s` and names it."""
    return _watched(lambda server: server.leave())


def _watched(go: Callable[[Server], None]) -> ExhibitOutcome:
    server, waiting = Server(), set(range(TRAINERS))

    def train(place: int) -> None:
        for _ in range(SHORT if place == 0 else BATCHES):
            time.sleep(STEP_S)
            server.push().wait()
        waiting.discard(place)
        go(server)

    threads = [threading.Thread(target=train, args=(place,), daemon=True) for place in range(TRAINERS)]
    for thread in threads:
        thread.start()
    seen = [0]
    while len(seen) <= SLOTS or (waiting and seen[-1] > seen[-QUIET:][0] and len(seen) < MOST):
        time.sleep(SLOT_MS / 1000)
        seen.append(server.updates)
    left = len(waiting)
    _let_go(server, threads)
    return ExhibitOutcome(
        {"updates": float(seen[-1]), "waiting": float(left)},
        {SLOT_MS * slot: float(updates) for slot, updates in enumerate(seen)},
    )


def _let_go(server: Server, threads: list[threading.Thread]) -> None:
    """Release the trainers that would wait forever."""
    while any(thread.is_alive() for thread in threads):
        with server.lock:
            server.members = 1
            server.update_if_complete()
        time.sleep(0.005)


def invariant(outcome: ExhibitOutcome) -> None:
    """No trainer waits for one that has left."""
    waiting = outcome.numbers["waiting"]
    if waiting:
        raise Broken(
            f"No trainer must wait for one that has left; {waiting:.0f} still waited at the end. Shrink the round when "
            "a trainer leaves, and drop a silent one after timeout_s."
        )
