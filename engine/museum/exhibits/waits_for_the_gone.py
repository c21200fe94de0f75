"""Waiting for a trainer that left: a fault of parameter_server.

source: PyTorch's tutorial on batch RPC processing: the parameter server; the tutorial's batched REINFORCE has the same
    fault
wrong: A round is complete when N gradients have arrived, however many trainers are left, and no call has a timeout: a
    trainer that died, or that has fewer batches, leaves all others waiting forever.
right: A trainer signs off and rounds shrink. A trainer that is silent for longer than `timeout_s` ends a synchronous
    run with an error that names it; an asynchronous run continues.
seen: Trainer1 of four has 3 batches, the others 8. The published server stops after 3 updates and would wait forever;
    the exhibit ends it after 2 s.
chart: Updates made against Time (ms)
values: waiting = Still waiting at the end (trainers); updates = Updates made (updates)
rule: waiting = 0
broken: No trainer must wait for one that has left; {waiting:.0f} still waited at the end. Shrink the round when a
    trainer leaves, and drop a silent one after timeout_s.
guard: tests/experiments/servers/test_servers.py::test_the_last_partial_batch_is_flushed_when_the_others_leave
"""

import time
from threading import Condition, Thread

from engine.museum.exhibit import Outcome, Version

TRAINERS, BATCHES, SHORT, STEP_S = 4, 8, 3, 0.02
"""Each trainer has 8 mini-batches, trainer1 only 3."""
SLOT_MS, SLOTS, QUIET, MOST = 100, 10, 20, 100
"""The exhibit runs for 1 s, and longer while a trainer waits and updates follow within 2 s of each other."""


class Server:
    """A batching server: the last gradient of a round releases all waiting trainers."""

    def __init__(self) -> None:
        self.members, self.arrived, self.updates, self.updated = TRAINERS, 0, 0, Condition()

    def push(self) -> None:
        """Add a gradient; return when its round has been applied."""
        with self.updated:
            number, self.arrived = self.updates, self.arrived + 1
            self.update_if_complete()
            self.updated.wait_for(lambda: self.updates > number)

    def update_if_complete(self) -> None:
        """Apply the round once all members' gradients have arrived; call under the lock."""
        if self.arrived and self.arrived >= self.members:
            self.updates, self.arrived = self.updates + 1, 0
            self.updated.notify_all()


def wrong(server: Server) -> None:
    """Let a trainer that has no more batches leave without signing off."""


def right(server: Server) -> None:
    with server.updated:
        server.members -= 1
        server.update_if_complete()


def measure(seed: int, leave: Version) -> Outcome:
    """Train until all trainers have left, or no update comes any more; the chart is the number of updates."""
    server, waiting = Server(), set(range(TRAINERS))

    def train(place: int) -> None:
        for _ in range(SHORT if place == 0 else BATCHES):
            time.sleep(STEP_S)
            server.push()
        waiting.discard(place)
        leave(server)

    threads = [Thread(target=train, args=(place,), daemon=True) for place in range(TRAINERS)]
    for thread in threads:
        thread.start()
    seen = [0]
    while len(seen) <= SLOTS or (waiting and seen[-1] > seen[-QUIET:][0] and len(seen) < MOST):
        time.sleep(SLOT_MS / 1000)
        seen.append(server.updates)
    left = len(waiting)
    while any(thread.is_alive() for thread in threads):  # release those that would wait forever
        with server.updated:
            server.members = 1
            server.update_if_complete()
        time.sleep(0.005)
    return Outcome({"updates": seen[-1], "waiting": left}, {SLOT_MS * slot: n for slot, n in enumerate(seen)})
