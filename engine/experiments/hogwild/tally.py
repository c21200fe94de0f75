"""What a trainer records of its steps, and how all trainers together count passes over the data."""

import math

import torch
from torch import Tensor

from engine.data.nets import Score
from engine.data.shared_tensors import shared
from engine.errors import RunFailed
from engine.experiments.hogwild.config import HogwildConfig
from engine.runtime.worker.ranks import Rank


class Tally:
    """One trainer's steps and samples; `passes` counts the samples of all trainers.

    Each trainer adds to its own column of `counts` [samples and updates, trainers] alone, so the sums are exact but for
    batches under way.
    """

    def __init__(self, rank: Rank, config: HogwildConfig, counts: Tensor, size: int) -> None:
        self.record = rank.recorder
        self.steps = 0
        self._role = rank.role
        self._config = config
        self._size = size
        self._index = rank.index
        self._counts, self._updates = counts.numpy()  # an element's access takes a tenth of the tensor's time
        self._read_at: int | None = None

    @staticmethod
    def shared_counts(trainers: int) -> Tensor:
        """Return shared counters of each trainer's samples and of its updates."""
        return shared(torch.zeros(2, trainers, dtype=torch.int64))

    @property
    def passes(self) -> float:
        """How often all trainers together have gone through the training set."""
        return float(self._counts.sum()) / self._size

    def reads(self) -> None:
        """Be called before weights are read for a gradient whose staleness is to be told: the updates that others write
        until its own is written.
        """
        self._read_at = int(self._updates.sum())

    def add(self, loss: float, samples: int, overwritten: float | None = None) -> None:
        """Record one step, and the percentage of its updates overwritten where it was looked at; raises RunFailed when
        the loss is no number any more.
        """
        self.steps += 1
        self._counts[self._index] += samples
        values = (
            {"train/loss": loss}
            if overwritten is None
            else {"train/loss": loss, "perf/overwritten_updates": overwritten}
        )
        if self._read_at is not None:
            values["perf/staleness"] = staleness = int(self._updates.sum()) - self._read_at
            self.record.histogram("staleness", staleness)
            self._read_at = None
        self._updates[self._index] += 1
        self.record.log(values, step=self.steps, passes=self.passes)
        self.record.progress(int(self._counts[self._index]), self._config.epochs * self._size)
        if not math.isfinite(loss):
            raise RunFailed(
                f"{self._role}'s loss became {loss} at step {self.steps}: the shared weights have grown out of bounds. "
                f"Lower learning_rate ({self._config.learning_rate}), momentum ({self._config.momentum}) or "
                f"trainers ({self._config.trainers})."
            )

    def score(self, score: Score) -> None:
        """Record a test of the shared weights."""
        self.record.log({"test/accuracy": score.accuracy, "test/loss": score.loss}, step=self.steps, passes=self.passes)
