"""How the reference takes part in duels. Torch-free.

ReferenceConfig refers to this module, so this module does not import it.
"""

from typing import Any

from engine.duel.budget import steps_of
from engine.experiment.contender import Contender, Pace, Ready


def _pace(config: Any) -> Pace:
    return Pace(1.0, steps_of(config.dataset, config.batch_size), None)


CONTENDER = Contender(
    length="epochs",
    pace=_pace,
    strategies={"reference": Ready("Reference")},
    data="the whole data set",
    momentum=lambda config: "one",
    tests="by the trainer, which pauses",
)
