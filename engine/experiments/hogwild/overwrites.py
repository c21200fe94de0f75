"""How many of a trainer's updates others overwrite: an estimate, from weights looked at right before and right after
its own write.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from engine.data.weights import FlatSgd

SAMPLED = 1_000
"""Weights that are looked at, at most."""
Change = Callable[[Tensor], object]
"""What adds a trainer's update to the weights that it is given."""


class Overwrites:
    """Carries out one trainer's writes; each `every`-th one is looked at (0: none).

    A sampled weight counts where it differs from its value before plus the trainer's own change. The read, the write
    and the second read are three moments: a write of another trainer between the first two or the last two counts too,
    though nothing was lost, and one that lands in the middle of ours is lost without being counted here (the other
    trainer sees it). Without others the share is exactly 0.
    """

    def __init__(self, weights: Tensor, every: int, seed: int) -> None:
        self._weights = weights
        self._every = every
        self._writes = 0
        self._alone = torch.zeros_like(weights)  # where the change is made once more, with nobody else about
        self._positions = torch.randperm(len(weights), generator=torch.Generator().manual_seed(seed))[:SAMPLED].to(
            weights.device
        )
        self._seen: tuple[Change, Tensor, Tensor, Tensor] | None = None

    def write(self, change: Change, touched: Tensor | None = None) -> None:
        """Change the weights; `touched` (int64) says where, for a change that leaves most of them alone."""
        self._writes += 1
        if not self._every or self._writes % self._every:
            change(self._weights)
            return
        positions = self._positions if touched is None else torch.unique(touched[:SAMPLED])
        before = self._weights.index_select(0, positions)
        change(self._weights)
        self._seen = change, positions, before, self._weights.index_select(0, positions)

    def share(self) -> float | None:
        """Return the percentage of the last write's sampled weights that others wrote meanwhile, None where it was not
        looked at.

        To be asked before the change's own tensors are filled anew; outside a lock, which it would only hold longer.
        """
        if self._seen is None:
            return None
        change, positions, before, after = self._seen
        self._seen = None
        self._alone.index_copy_(0, positions, before)
        change(self._alone)  # the same operation on the same places, so that it rounds the same way
        expected = self._alone.index_select(0, positions)
        differ = after.view(torch.int32) != expected.view(
            torch.int32
        )  # as bits: a weight that is no number equals itself
        return 100 * float(differ.double().mean())


class WatchedSgd(FlatSgd):
    """FlatSgd whose writes can be looked at: the same numbers bit for bit."""

    def __init__(
        self, weights: Tensor, gradient: Tensor, learning_rate: float, momentum: float, overwrites: Overwrites
    ) -> None:
        super().__init__(weights, gradient, learning_rate, momentum)
        self._overwrites = overwrites

    def step(self) -> None:
        """Do what FlatSgd does, its last operation through `overwrites`."""
        self.velocity.mul_(self._momentum).add_(self._gradient)
        self._overwrites.write(self._add)

    def _add(self, weights: Tensor) -> None:
        weights.add_(self.velocity, alpha=-self.learning_rate)
