"""What a trainer records of its steps, and how all trainers together count passes over the data."""

import math

import torch
from torch import Tensor

from engine.data.nets import Score
from engine.data.shared_tensors import shared
from engine.errors import RunFailed
from engine.experiments.sync_sgd.config import SyncSgdConfig
from engine.runtime.worker.ranks import Rank


class Tally:
    """One trainer's steps and samples; `passes` counts the samples of all trainers over the whole training set.

    Each trainer adds to its own entry of `counts` alone, so the sum is exact but for mini-batches under way.
    """

    def __init__(self, rank: Rank, config: SyncSgdConfig, counts: Tensor, size: int, total: int) -> None:
        self.record = rank.recorder
        self.steps = 0
        self._role = rank.role
        self._config = config
        self._size = size
        self._total = total
        self._index = rank.index
        self._counts = counts.numpy()  # an element's access takes a tenth of the tensor's time

    @staticmethod
    def shared_counts(trainers: int) -> Tensor:
        """Return a shared counter of samples for each trainer."""
        return shared(torch.zeros(trainers, dtype=torch.int64))

    @property
    def passes(self) -> float:
        """How often all trainers together have gone through the training set."""
        return float(self._counts.sum()) / self._size

    def go_on(self, steps: int, samples: int) -> None:
        """Count from where an earlier run had come to."""
        self.steps = steps
        self._counts[self._index] = samples

    def add(self, loss: float, samples: int) -> None:
        """Record one step; raises RunFailed when its loss is no number any more."""
        self.steps += 1
        self._counts[self._index] += samples
        self.record.log({"train/loss": loss}, step=self.steps, passes=self.passes)
        self.record.progress(int(self._counts[self._index]), self._total)
        if not math.isfinite(loss):
            raise RunFailed(
                f"{self._role}'s loss became {loss} at step {self.steps}: its weights have grown out of bounds. "
                f"Lower learning_rate ({self._config.learning_rate}) or momentum ({self._config.momentum}), or "
                "average more often. "
                "The last checkpoint, if there is one, is from before."
            )

    def score(self, score: Score) -> None:
        """Record a test of the global weights."""
        self.record.log({"test/accuracy": score.accuracy, "test/loss": score.loss}, step=self.steps, passes=self.passes)
