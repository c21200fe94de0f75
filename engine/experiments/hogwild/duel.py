"""How Hogwild! takes part in duels. Torch-free.

HogwildConfig refers to this module, so this module does not import it.
"""

from math import ceil
from typing import Any

from engine.experiment.contender import Contender, Pace, Ready


def _pace(config: Any) -> Pace:
    """In one epoch every trainer goes through the whole set; trainer1, which tests, counts only its own steps."""
    steps = ceil(config.samples / config.batch_size)
    return Pace(float(config.trainers), steps, None, config.trainers / steps, config.trainers)


CONTENDER = Contender(
    length="epochs",
    pace=_pace,
    strategies={"hogwild": Ready("Hogwild!"), "hogwild_locked": Ready("Hogwild! with a lock", {"lock": True})},
    data="the whole data set per trainer, in its own order",
    momentum=lambda config: "one per trainer",
    tests="by trainer1, which pauses; the others continue",
    given=lambda settings: {"overwrites_every": 0},
)
