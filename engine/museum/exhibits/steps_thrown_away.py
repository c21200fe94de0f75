"""One counter of everyone's steps: who completes the batch hands in its own buffer, and all others' buffers are thrown
away.
"""

import threading
from collections.abc import Callable

import torch
from torch import Tensor

from engine.museum.outcome import Broken, ExhibitOutcome
from engine.museum.threads import crowd

COLLECTORS, BATCH, STEPS = 4, 64, 256
"""Each collector makes 256 steps; a batch is 64."""


class Learner:
    """What was learned from, and what was thrown away."""

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
    """Count the steps of all; the batch is the buffer of the one who makes the last step."""

    def step(learner: Learner, place: int) -> None:
        learner.collect(place)
        if learner.collected % BATCH == 0:
            learner.learn(learner.buffers[place])
            learner.buffers = [[] for _ in range(COLLECTORS)]

    return _played(step)


def right(seed: int) -> ExhibitOutcome:
    """Let each collector fill a batch of its own, which waits in a queue until it is learned from."""

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
    """All steps that are played are learned from."""
    used = outcome.numbers["used"]
    if used != 100:
        raise Broken(
            f"{used:.0f} % of the steps played were learned from: it must be 100 %. A collector's steps must "
            "stay its own until its batch is full."
        )
