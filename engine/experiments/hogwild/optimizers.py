"""Optimizers whose `step()` writes weights that others read and write at the same time."""

from typing import Any, Protocol

import torch
from torch import Tensor

from engine.data.weights import FlatSgd
from engine.experiments.hogwild.overwrite_sampler import OverwriteSampler
from engine.runtime.worker.ranks import Rank


class Optimizer(Protocol):
    """Anything with a step: FlatSgd, or torch's optimizers."""

    def step(self) -> Any: ...


class SampledSgd(FlatSgd):
    """FlatSgd that samples its writes for overwritten updates; results are identical bit for bit."""

    def __init__(
        self, weights: Tensor, gradient: Tensor, learning_rate: float, momentum: float, sampler: OverwriteSampler
    ) -> None:
        super().__init__(weights, gradient, learning_rate, momentum)
        self._sampler = sampler

    def step(self) -> None:
        """v <- momentum * v + gradient; weights <- weights - learning_rate * v, the second through the sampler."""
        self.velocity.mul_(self._momentum).add_(self._gradient)
        self._sampler.write(self._add)

    def _add(self, weights: Tensor) -> None:
        weights.add_(self.velocity, alpha=-self.learning_rate)


class SparseSgd:
    """SGD that writes only the weights of one mini-batch; it has no momentum, which would change all others too."""

    def __init__(self, learning_rate: float, sampler: OverwriteSampler) -> None:
        self._sampler = sampler
        self._learning_rate = learning_rate
        self._touched = self._change = torch.empty(0)

    def set_gradient(self, touched: Tensor, gradient: Tensor) -> None:
        """Set the next step's write: `touched` int64, `gradient` float32 of the same shape; a weight may occur several
        times.
        """
        self._touched, self._change = touched.flatten(), gradient.flatten() * -self._learning_rate

    def step(self) -> None:
        """weights[touched] <- weights[touched] - learning_rate * gradient, one addition per value."""
        self._sampler.write(self._add, self._touched)

    def _add(self, weights: Tensor) -> None:
        weights.index_add_(0, self._touched, self._change)


class LockedOptimizer:
    """Holds the lock during each step of another optimizer (option `lock`); waiting for it is the phase `lock`."""

    def __init__(self, optimizer: Optimizer, rank: Rank) -> None:
        self._step = optimizer.step
        self._record = rank.recorder
        self._lock = rank.lock("weights")
        self._on_gpu = rank.device.type == "cuda"

    def step(self) -> None:
        """Step while no other trainer does."""
        with self._record.phase("lock"), self._lock, self._record.phase("update"):
            self._step()
            if self._on_gpu:
                # a GPU writes after step() has returned; the lock must cover that
                torch.cuda.current_stream().synchronize()
