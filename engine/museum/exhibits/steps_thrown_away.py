"""One counter of all steps: who completes the batch submits its own buffer, and all others are discarded."""

import threading
from collections.abc import Callable

import torch
from torch import Tensor

from engine.museum.outcome import Broken, ExhibitOutcome
from engine.museum.threads import crowd

COLLECTORS, BATCH, STEPS = 4, 64, 256
"""Each collector makes 256 steps; a batch is 64."""


class Learner:
    """Counts steps used for training and steps collected."""

    def __init__(self) -> None:
        self.buffers: list[list[Tensor]] = [[] for _ in range(COLLECTORS)]
        self.lock = threading.Lock()
        self.collected = 0
        self.used = 0
        self.series = {0: 0.0}

    def learn(self, buffer: list[Tensor]) -> None:
        """Take a batch."""
        self.used += len(torch.stack(buffer))

    def collect(self, place: int) -> None:
        """Add a step to a collector's buffer."""
        self.buffers[place].append(torch.zeros(4))
        self.collected += 1


def wrong(seed: int) -> ExhibitOutcome:
    """Count all steps together; the batch is the buffer of the collector that makes the last step."""

    def step(learner: Learner, place: int) -> None:
        learner.collect(place)
        if learner.collected % BATCH == 0:
            learner.learn(learner.buffers[place])
            learner.buffers = [[] for _ in range(COLLECTORS)]

    return _played(step)


def right(seed: int) -> ExhibitOutcome:
    """Let each collector fill its own batch, which is queued until it is used for training."""

    def step(learner: Learner, place: int) -> None:
        learner.collect(place)
        if len(learner.buffers[place]) == BATCH:
            learner.learn(learner.buffers[place])
            learner.buffers[place] = []

    return _played(step)


def _played(step: Callable[[Learner, int], None]) -> ExhibitOutcome:
    learner, turn = Learner(), threading.Barrier(COLLECTORS)

    def play(place: int) -> None:
        for _ in range(STEPS):
            with learner.lock:
                step(learner, place)
                if learner.collected % BATCH == 0:
                    learner.series[learner.collected] = float(learner.used)
            turn.wait()

    crowd(COLLECTORS, play)
    return ExhibitOutcome(
        {"used": 100 * learner.used / learner.collected, "collected": float(learner.collected)}, learner.series
    )


def invariant(outcome: ExhibitOutcome) -> None:
    """All played steps are used for training."""
    used = outcome.numbers["used"]
    if used != 100:
        raise Broken(
            f"100 % of the played steps must be used for training; got {used:.0f} %. Keep each collector's steps until "
            "its batch is full."
        )
