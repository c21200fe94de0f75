"""Gradients that are added outside the lock, by `sum += gradient`. torch adds without Python's lock (the GIL), number
by number.

Where two trainers add at the same time, or one is interrupted between reading numbers and writing them back, the
other's adds to these numbers are lost. An add of some ten thousand numbers is over before another thread gets its turn;
one of millions is not.
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
    """Count, for each size of the sum, the rounds in which an add to one of its numbers was lost."""
    series = {size: float(sum(_loses(add, torch.ones(size)) for _ in range(ROUNDS))) for size in SIZES}
    return ExhibitOutcome({"short": series[SIZES[-1]], "rounds": float(ROUNDS)}, series)


def _loses(add: Callable[[Server, Tensor], None], gradient: Tensor) -> bool:
    """Let all trainers add the same gradient of ones to one sum; return whether a number of it is short of an add."""
    server = Server(len(gradient))
    crowd(TRAINERS, lambda trainer: add(server, gradient))
    return bool((server.sum < TRAINERS).any())


def invariant(outcome: ExhibitOutcome) -> None:
    """No add is lost, whatever the size."""
    short = {size: int(rounds) for size, rounds in outcome.series.items() if rounds}
    if short:
        told = ", ".join(f"{rounds} of {ROUNDS} rounds at {size:,} numbers" for size, rounds in short.items())
        raise Broken(
            f"Adds were lost in {told}: every number of a sum must hold all {TRAINERS} gradients, so adding "
            "must happen under the lock."
        )
