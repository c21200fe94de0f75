"""Mini-batches: a new random order per epoch, one gather per batch."""

from collections.abc import Iterator

import torch
from torch import Tensor


class Batches:
    """Cuts images and labels into mini-batches, in an order that depends only on `seed` and the epoch number.

    The order is drawn on the CPU, so that every device sees the same batches.
    """

    def __init__(self, images: Tensor, labels: Tensor, batch_size: int, seed: int) -> None:
        self.images = images
        self.labels = labels
        self.batch_size = batch_size
        self._random = torch.Generator().manual_seed(seed)
        self.random_state = self._random.get_state()
        """Generator state before the order of the current epoch was drawn."""

    def restore(self, random_state: Tensor) -> None:
        """Redraw the epoch with this generator state next."""
        self._random.set_state(random_state.cpu())

    def epoch(self, first: int = 0) -> Iterator[Tensor]:
        """Yield the positions of each mini-batch of the next epoch, from number `first` on; the last one may be
        smaller.
        """
        self.random_state = self._random.get_state()
        order = torch.randperm(len(self.labels), generator=self._random).to(self.labels.device)
        yield from torch.split(order, self.batch_size)[first:]

    def take(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return the images and labels at these positions."""
        return self.images.index_select(0, positions), self.labels.index_select(0, positions)
