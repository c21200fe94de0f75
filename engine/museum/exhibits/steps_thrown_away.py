"""Three of four steps discarded: a fault of dppo.

source: The public reader-writer code of DPPO that the note on bounded queues starts from
wrong: One counter counts all collectors' steps. The collector that completes a batch submits its own buffer, and all
    other buffers are cleared.
right: Each collector fills its own batches, and a bounded queue holds them until they are trained on.
seen: The published code trains on about a quarter of the steps that four collectors play.
chart: Steps trained on against Steps played
values: used = Trained on (%); collected = Played (steps)
rule: used = 100
broken: 100 % of the played steps must be used for training; got {used:.0f} %. Keep each collector's steps until its
    batch is full.
guard: tests/experiments/dppo/test_dppo.py::test_a_bounded_queue_uses_every_step_and_synchronizes_once_in_a_queueful
"""

import torch
from torch import Tensor

from engine.museum.exhibit import Outcome, Version

COLLECTORS, BATCH, STEPS = 4, 64, 256
"""Each collector makes 256 steps; a batch is 64."""


class Learner:
    """Counts the steps that collectors play, and those that are trained on."""

    def __init__(self) -> None:
        self.collected, self.used = 0, 0
        self.buffers: list[list[Tensor]] = [[] for _ in range(COLLECTORS)]

    def learn(self, buffer: list[Tensor]) -> None:
        """Train on a batch."""
        self.used += len(torch.stack(buffer))


def wrong(learner: Learner, place: int) -> None:
    if learner.collected % BATCH == 0:
        learner.learn(learner.buffers[place])
        learner.buffers = [[] for _ in range(COLLECTORS)]


def right(learner: Learner, place: int) -> None:
    if len(learner.buffers[place]) == BATCH:
        learner.learn(learner.buffers[place])
        learner.buffers[place] = []


def measure(seed: int, after_step: Version) -> Outcome:
    """Let the collectors take turns; the chart is the steps trained on, after each batch played."""
    learner, series = Learner(), {0: 0}
    for number in range(COLLECTORS * STEPS):
        place = number % COLLECTORS
        learner.buffers[place].append(torch.zeros(4))
        learner.collected += 1
        after_step(learner, place)
        if learner.collected % BATCH == 0:
            series[learner.collected] = learner.used
    return Outcome({"used": 100 * learner.used / learner.collected, "collected": learner.collected}, series)
