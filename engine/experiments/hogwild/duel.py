"""How Hogwild! takes part in duels. Torch-free.

HogwildConfig names what is told here, so this module does not import it.
"""

from typing import Any

from engine.duel.budget import steps_of
from engine.experiment.contender import Contender, Pace, Ready


def _pace(config: Any) -> Pace:
    """In one epoch every trainer goes through the whole set; trainer1, who tests, knows its own steps alone."""
    steps = steps_of(config.dataset, config.batch_size)
    return Pace(float(config.trainers), steps, None, config.trainers / steps, config.trainers)


CONTENDER = Contender(
    length="epochs",
    pace=_pace,
    strategies={"hogwild": Ready("Hogwild!"), "hogwild_locked": Ready("Hogwild! with a lock", {"lock": True})},
    data="each trainer the whole set, in an order of its own",
    momentum=lambda config: "one for each trainer",
    tests="by trainer1, which stops for it; the others train on",
    given=lambda settings: {"overwrites_every": 0},
)
