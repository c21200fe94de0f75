"""How the reference takes part in duels. Torch-free."""

from typing import TYPE_CHECKING

from engine.duel.budget import steps_of
from engine.experiment.contender import Contender, Pace, Ready

if TYPE_CHECKING:
    from engine.experiments.reference.config import ReferenceConfig


def _pace(config: "ReferenceConfig") -> Pace:
    return Pace(1.0, steps_of(config.dataset, config.batch_size), None)


CONTENDER = Contender(
    length="epochs",
    pace=_pace,
    strategies={"reference": Ready("Reference")},
    data="the whole set",
    momentum=lambda config: "one",
    tests="by the trainer, which stops for it",
)
