"""The pace of the methods with a server of weights: each trainer pushes a gradient and is answered. Torch-free and
pure.
"""

from engine.duel.budget import bytes_exchanged, steps_of_parts
from engine.experiment.contender import Pace
from engine.training.settings import ServerConfig

_WIDTHS = {"float32": 4, "bf16": 2}


def served(config: ServerConfig, gradients: int = 1) -> Pace:
    """Return the pace of a server that makes an update of so many gradients."""
    pushed = sum(steps_of_parts(config.dataset, config.trainers, config.batch_size))
    return Pace(1.0, pushed / gradients, bytes_exchanged(pushed, _WIDTHS[config.wire]))
