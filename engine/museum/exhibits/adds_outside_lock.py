"""Gradients that are added outside the lock: between the look at the sum and the change of it, another trainer's change is lost."""

import threading
from collections.abc import Callable

import torch
from torch import Tensor

from engine.museum.crowds import crowd
from engine.museum.outcome import Broken, Outcome

TRAINERS, ROUNDS = 4, 40


class Server:
    """The sum of one round's gradients, None until the first one comes; `switch` is a place where the scheduler may let another trainer go on."""

    def __init__(self, switch: Callable[[], None]) -> None:
        self.sum: Tensor | None = None
        self.lock = threading.Lock()
        self.switch = switch

    def add(self, gradient: Tensor) -> None:
        """Look whether there is a sum, then change it."""
        if self.sum is None:
            self.switch()
            self.sum = gradient.clone()
        else:
            self.sum += gradient

    def take(self) -> float:
        """Return how many gradients the sum holds, and begin the next round."""
        found, self.sum = self.sum, None
        return 0.0 if found is None else float(found.min())


def wrong(seed: int) -> Outcome:
    """Let all trainers add at once; that they meet between look and change is left to chance in life, and made sure of here."""
    between = threading.Barrier(TRAINERS)
    return _rounds(Server(lambda: _meet(between)), lambda server, gradient: server.add(gradient))


def right(seed: int) -> Outcome:
    """Let each trainer add under the lock."""

    def add(server: Server, gradient: Tensor) -> None:
        with server.lock:
            server.add(gradient)

    return _rounds(Server(lambda: None), add)


def _rounds(server: Server, add: Callable[[Server, Tensor], None]) -> Outcome:
    arrived, series = 0.0, dict[int, float]()
    for number in range(1, ROUNDS + 1):
        crowd(TRAINERS, lambda trainer: add(server, torch.ones(8)))
        arrived += server.take()
        series[number] = arrived
    return Outcome({"arrived": arrived, "sent": float(TRAINERS * ROUNDS)}, series)


def _meet(barrier: threading.Barrier) -> None:
    barrier.wait(timeout=10)


def invariant(outcome: Outcome) -> None:
    """No gradient is lost."""
    arrived, sent = outcome.numbers["arrived"], outcome.numbers["sent"]
    if arrived != sent:
        raise Broken(
            f"{arrived:.0f} of {sent:.0f} gradients arrived: every gradient that a trainer pushed must be in a sum, so adding must happen under the lock."
        )
