"""Optimizers whose `step()` writes weights that others read and write at the same time."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch
from torch import Tensor

from engine.data.nets import FlatSgd
from engine.runtime.worker.ranks import Rank

# ------------------------------------------------------------------------------------------------------------------
# An estimate of a trainer's overwritten updates, from weights read right before and right after its own write.

SAMPLED = 1_000
"""Maximum number of weights compared."""
Change = Callable[[Tensor], object]
"""A function that adds a trainer's update to the given weights."""
NOTHING: Mapping[str, float] = {}


class OverwriteSampler:
    """Measures every `every`-th write of one trainer (0: none).

    A sampled weight counts if it differs from its previous value plus the trainer's own change. The read, the write and
    the second read are three moments: a write of another trainer between the first two or the last two counts too,
    though nothing was lost, and one that lands in the middle of ours is lost without being counted here (the other
    trainer counts it). Without other trainers the percentage is exactly 0.
    """

    def __init__(self, weights: Tensor, every: int, seed: int) -> None:
        self._weights = weights
        self._every = every
        self._writes = 0
        self._alone = torch.zeros_like(weights)  # a private copy on which the change is repeated
        self._positions = torch.randperm(len(weights), generator=torch.Generator().manual_seed(seed))[:SAMPLED].to(
            weights.device
        )
        self._sample: tuple[Change, Tensor, Tensor, Tensor] | None = None

    def write(self, change: Change, touched: Tensor | None = None) -> None:
        """Apply the change to the weights; `touched` (int64) gives the positions of a sparse change."""
        self._writes += 1
        if not self._every or self._writes % self._every:
            change(self._weights)
            return
        positions = self._positions if touched is None else torch.unique(touched[:SAMPLED])
        before = self._weights.index_select(0, positions)
        change(self._weights)
        self._sample = change, positions, before, self._weights.index_select(0, positions)

    def metrics(self) -> Mapping[str, float]:
        """Return `perf/overwritten_updates` of the last write, as a percentage of its sampled weights; empty if that
        write was not sampled.

        Call it before the change's own tensors are overwritten, and outside a lock to keep the lock short.
        """
        if self._sample is None:
            return NOTHING
        change, positions, before, after = self._sample
        self._sample = None
        self._alone.index_copy_(0, positions, before)
        change(self._alone)  # the same operation at the same positions, so that it rounds the same way
        expected = self._alone.index_select(0, positions)
        # compared as bits, so that a NaN equals itself
        differ = after.view(torch.int32) != expected.view(torch.int32)
        return {"perf/overwritten_updates": 100 * float(differ.double().mean())}


# ---- Optimizers ----------------------------------------------------------------------------------------------------


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
