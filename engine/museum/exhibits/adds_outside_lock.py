"""Gradients added outside the lock, by `sum += gradient`. torch releases the GIL while it adds.

If two trainers add at the same time, or one is preempted between reading and writing, the other's additions are lost.
An addition of about ten thousand numbers ends before another thread is scheduled; one of millions does not.
"""

import threading
from collections.abc import Callable

import torch
from torch import Tensor

from engine.museum.outcome import Broken, ExhibitOutcome
from engine.museum.threads import crowd

TRAINERS, ROUNDS = 4, 15
SIZES = (20_000, 200_000, 1_000_000, 4_000_000)


class Server:
    """The sum of one round's gradients."""

    def __init__(self, size: int) -> None:
        self.sum = torch.zeros(size)
        self.lock = threading.Lock()


def wrong(seed: int) -> ExhibitOutcome:
    """Let all trainers add at once."""

    def add(server: Server, gradient: Tensor) -> None:
        server.sum += gradient

    return _rounds(add)


def right(seed: int) -> ExhibitOutcome:
    """Let each trainer add under the lock."""

    def add(server: Server, gradient: Tensor) -> None:
        with server.lock:
            server.sum += gradient

    return _rounds(add)


def _rounds(add: Callable[[Server, Tensor], None]) -> ExhibitOutcome:
    """Count the rounds with a lost addition, for each size of the sum."""
    series = {size: float(sum(_loses(add, torch.ones(size)) for _ in range(ROUNDS))) for size in SIZES}
    return ExhibitOutcome({"short": series[SIZES[-1]], "rounds": float(ROUNDS)}, series)


def _loses(add: Callable[[Server, Tensor], None], gradient: Tensor) -> bool:
    """Let all trainers add a gradient of ones to one sum; return whether an addition was lost."""
    server = Server(len(gradient))
    crowd(TRAINERS, lambda trainer: add(server, gradient))
    return bool((server.sum < TRAINERS).any())


def invariant(outcome: ExhibitOutcome) -> None:
    """No addition is lost at any size."""
    short = {size: int(rounds) for size, rounds in outcome.series.items() if rounds}
    if short:
        lost = ", ".join(f"{rounds} of {ROUNDS} rounds at {size:,} numbers" for size, rounds in short.items())
        raise Broken(
            f"Additions were lost in {lost}. Every number of the sum must include all {TRAINERS} gradients; add under "
            "the lock."
        )
