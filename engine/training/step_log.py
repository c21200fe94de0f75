"""A trainer's steps: their record, all trainers' passes over the data, and the faults that the config injects."""

import math
import os
import signal
import time
from collections.abc import Mapping

import torch
from torch import Tensor

from engine.data.nets import Score
from engine.data.tensors import shared
from engine.errors import EngineError, RunFailed
from engine.runtime.worker.ranks import Rank
from engine.training.settings import TrainingConfig

NOTHING: Mapping[str, float] = {}


class StepLog:
    """One trainer's steps and samples; `passes` counts the samples of all trainers over the whole training set.

    Each trainer writes only its own column of `counters` [samples and updates, trainers], the one of its index among
    the ranks, so the sums are exact except for mini-batches in progress. `advice` ends the error for a loss that is not
    finite. Raises EngineError for a rank without a column.
    """

    def __init__(self, rank: Rank, counters: Tensor, *, pass_size: int, total: int, advice: str) -> None:
        self.record = rank.recorder
        self.steps = 0
        self._role = rank.role
        self._index = rank.index
        self._samples, self._updates = counters.numpy()  # element access takes a tenth of a tensor's time
        if rank.index >= len(self._samples):
            raise EngineError(
                f"{rank.role} is rank {rank.index} (from 0), and the counters have {len(self._samples)} columns. Name "
                "the trainers first in roles, or make StepLog.shared_counters(len(config.roles))."
            )
        self._pass_size = pass_size
        self._total = total
        self._advice = advice
        self._read_at: int | None = None

    @staticmethod
    def shared_counters(trainers: int) -> Tensor:
        """Return counters of samples and updates in shared memory, a column for each of the first ranks."""
        return shared(torch.zeros(2, trainers, dtype=torch.int64))

    @property
    def passes(self) -> float:
        """Passes over the training set by all trainers together."""
        return float(self._samples.sum()) / self._pass_size

    def resume(self, steps: int, samples: int) -> None:
        """Continue counting from the end of an earlier run."""
        self.steps = steps
        self._samples[self._index] = samples

    def mark_read(self) -> None:
        """Mark the version of the shared weights that the next gradient is computed from, to record its staleness."""
        self._read_at = int(self._updates.sum())

    def log_step(self, loss: float, samples: int, measured: Mapping[str, float] = NOTHING) -> None:
        """Record one step and its other measurements; raises RunFailed if the loss is not finite."""
        self.steps += 1
        self._samples[self._index] += samples
        values = {"train/loss": loss, **measured}
        if self._read_at is not None:
            values["perf/staleness"] = staleness = int(self._updates.sum()) - self._read_at
            self.record.histogram("staleness", staleness)
            self._read_at = None
        self._updates[self._index] += 1
        self.record.log(values, step=self.steps, passes=self.passes)
        self.record.progress(int(self._samples[self._index]), self._total)
        if not math.isfinite(loss):
            raise RunFailed(f"{self._role}'s loss became {loss} at step {self.steps}: {self._advice}")

    def log_score(self, score: Score) -> None:
        """Record a test of the global weights, at this trainer's step. A server, which has no steps, records
        `score.metrics` itself, at the number of its updates.
        """
        self.record.log(score.metrics, step=self.steps, passes=self.passes)


class Faults:
    """The faults that the config injects into this trainer, step by step."""

    def __init__(self, rank: Rank, config: TrainingConfig, number: int) -> None:
        self._sleep_s = config.sleep_s(number)
        self._killed_at = config.kill_at_step if config.kill_trainer == number else 0
        self._rank = rank

    def inject(self, step: int) -> None:
        """Sleep as configured for this trainer; kill this process at the configured `step` (from 1)."""
        if step == self._killed_at:
            self._rank.say(
                "trainer killed",
                f"{self._rank.role} killed itself at step {step}, as set by kill_trainer and kill_at_step.",
            )
            os.kill(os.getpid(), signal.SIGKILL)
        if self._sleep_s:
            with self._rank.recorder.operation("compute", "sleep"):  # a delay that is set is no standstill
                time.sleep(self._sleep_s)
