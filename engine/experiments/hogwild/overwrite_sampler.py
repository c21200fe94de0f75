"""An estimate of a trainer's overwritten updates, from weights read right before and right after its own write."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

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
