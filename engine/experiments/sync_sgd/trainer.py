"""What one trainer works with, whichever way it averages."""

from collections.abc import Callable
from dataclasses import dataclass, field

from torch import Tensor

from engine.data.weights import FlatSgd
from engine.experiments.sync_sgd.config import SyncSgdConfig
from engine.experiments.sync_sgd.part import Part
from engine.recorder import Recorder
from engine.runtime.transport.allreduce import Circle
from engine.training.learner import Learner


@dataclass
class Trainer:
    """One trainer: its net, its optimizer, its part of the data, its place among the others."""

    config: SyncSgdConfig
    record: Recorder
    learner: Learner
    optimizer: FlatSgd
    part: Part
    circle: Circle
    center: Tensor = field(init=False)
    """The global weights (and statistics) as of the last round, in memory of their own."""
    lay_down: Callable[[], None] = lambda: None
    """Called once a round, just before the last average: what this trainer alone knows goes where trainer1 can save it.
    """

    def __post_init__(self) -> None:
        self.center = self.learner.state.clone()

    def average(self, vector: Tensor, what: str) -> None:
        """Replace `vector` by the mean over all trainers; the time until the last of them comes is `wait`, the rest
        `communicate`.
        """
        with self.record.phase("communicate"):
            waited = self.circle.average(vector, what)
        self.record.spend("wait", waited)
        self.record.spend("communicate", -waited)
