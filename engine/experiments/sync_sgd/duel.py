"""How synchronous parallel SGD takes part in duels. Torch-free.

SyncSgdConfig refers to this module, so this module does not import it.
"""

from statistics import fmean
from typing import Any

from engine.data.catalogue import data_set
from engine.duel.budget import bytes_exchanged, steps_of_parts
from engine.experiment.contender import Contender, Pace, Ready


def _pace(config: Any) -> Pace:
    """In one round every trainer takes `average_every` steps, or makes one pass over its own part."""
    every, size = config.average_every, data_set(config.dataset).train
    steps = [every] * config.trainers if every else steps_of_parts(config.dataset, config.trainers, config.batch_size)
    passes = sum(steps) * config.batch_size / size if every else 1.0
    updates = max(steps) if config.steps_together else fmean(steps)
    exchanges = config.trainers * (max(steps) if config.steps_together else 1)
    return Pace(passes, updates / passes, bytes_exchanged(exchanges / passes), passes / steps[0])


CONTENDER = Contender(
    length="rounds",
    pace=_pace,
    strategies={
        "sync_sgd": Ready("Synchronous SGD, weights"),
        "sync_gradients": Ready("Synchronous SGD, gradients", {"sync": "gradients"}),
    },
    data="one part of the data per trainer",
    momentum=lambda config: "one per trainer" + ("" if config.keep_optimizer else ", reset each round"),
    tests="by trainer1, which the others wait for at the end of the next round",
    gradients=lambda config: config.trainers if config.steps_together else 1,
)
