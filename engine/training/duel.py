"""The pace of methods with a weight server: each trainer pushes a gradient and gets an answer. Torch-free and pure."""

from engine.duel.budget import bytes_exchanged, steps_of_parts
from engine.experiment.contender import Pace
from engine.training.settings import ServerConfig

_WIDTHS = {"float32": 4, "bf16": 2}


def served(config: ServerConfig, gradients: int = 1) -> Pace:
    """Return the pace of a server that makes one update per `gradients` gradients."""
    pushed = sum(steps_of_parts(config.dataset, config.trainers, config.batch_size))
    return Pace(1.0, pushed / gradients, bytes_exchanged(pushed, _WIDTHS[config.wire]))
