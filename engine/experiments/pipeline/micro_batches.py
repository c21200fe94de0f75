"""A run's batches, split into micro-batches: images for the first stage, targets for the last, identical in all
ranks.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import interpolate, one_hot

from engine.data.sets import ImageSet, load
from engine.data.tensors import Batches
from engine.experiments.pipeline.config import PipelineConfig
from engine.pipelining import sizes
from engine.seeding import ORDER, seed_of

IMAGES, TARGETS, CALIBRATION = range(3)
"""Indices in the order stream, so that all stages draw the same data."""


@dataclass(frozen=True)
class MicroBatches:
    """All batches of a run, split into micro-batches. Data sets are in shared memory; random images are drawn where
    they are used.
    """

    config: PipelineConfig
    data: ImageSet | None

    @classmethod
    def create(cls, config: PipelineConfig) -> "MicroBatches":
        """Return the batches of a run; raises DataError if its data set isn't available."""
        return cls(config, None if config.dataset == "random" else load(config.dataset))

    def passes_after(self, batches: int) -> float | None:
        """Return the passes over the data set in `batches` batches; None for random images."""
        return batches * (self.config.batch_size / self.data.size) if self.data else None

    def images(self, device: torch.device) -> Iterator[Tensor]:
        """Yield the images [n, 3, side, side] of one micro-batch after another, without end."""
        if self.data is None:
            random = torch.Generator().manual_seed(seed_of(self.config.seed, ORDER, IMAGES))
            while True:
                for count in sizes(self.config.batch_size, self.config.splits):
                    images = torch.empty(
                        count, 3, self.config.image_size, self.config.image_size, memory_format=torch.channels_last
                    )
                    yield images.normal_(generator=random).to(device)
        for positions in self._positions():
            for part in self._cut(positions):
                yield self._enlarged(self.data.train_images[part]).to(device)

    def targets(self, device: torch.device) -> Iterator[Tensor]:
        """Yield the targets of one micro-batch after another: classes [n] for cross_entropy, one-hot [n, classes] for
        mse.
        """
        if self.data is None:
            random = torch.Generator().manual_seed(seed_of(self.config.seed, ORDER, TARGETS))
            drawn = self._as_targets(
                torch.randint(self.config.classes, (self.config.batch_size,), generator=random)
            ).to(device)
            while True:
                yield from self._cut(drawn)
        for positions in self._positions():
            for part in self._cut(positions):
                yield self._as_targets(self.data.train_labels[part]).to(device)

    def _positions(self) -> Iterator[Tensor]:
        """Yield the positions [batch_size] of one batch after another; the rest of an epoch starts the first batch of
        the next.
        """
        assert self.data is not None
        batches = Batches(
            self.data.train_images,
            self.data.train_labels,
            self.config.batch_size,
            seed_of(self.config.seed, ORDER, IMAGES),
        )
        left = torch.empty(0, dtype=torch.int64)
        while True:
            for positions in batches.epoch():
                left = torch.cat([left, positions])
                while len(left) >= self.config.batch_size:
                    yield left[: self.config.batch_size]
                    left = left[self.config.batch_size :]

    def _cut(self, batch: Tensor) -> tuple[Tensor, ...]:
        return torch.split(batch, sizes(self.config.batch_size, self.config.splits))

    def _as_targets(self, labels: Tensor) -> Tensor:
        return one_hot(labels, self.config.outputs).float() if self.config.loss == "mse" else labels

    def _enlarged(self, images: Tensor) -> Tensor:
        """Return images [n, 1, 28, 28] as [n, 3, side, side]."""
        side = self.config.image_size
        enlarged = (
            images
            if images.shape[-1] == side
            else interpolate(images, size=(side, side), mode="bilinear", align_corners=False)
        )
        return enlarged.expand(-1, 3, -1, -1).contiguous(memory_format=torch.channels_last)

    # ---- tests

    @property
    def test_parts(self) -> list[slice]:
        """The test images' micro-batches; none if there is no test set."""
        if self.data is None:
            return []
        size, total = max(sizes(self.config.batch_size, self.config.splits)), len(self.data.test_labels)
        return [slice(start, min(total, start + size)) for start in range(0, total, size)]

    def test_images(self, part: slice, device: torch.device) -> Tensor:
        """Return some test images [n, 3, side, side]."""
        assert self.data is not None
        return self._enlarged(self.data.test_images[part]).to(device)

    def test_labels(self, part: slice, device: torch.device) -> Tensor:
        """Return their classes [n]."""
        assert self.data is not None
        return self.data.test_labels[part].to(device)

    def tests_after(self, batches: int) -> bool:
        """Return whether the net is tested after `batches` batches."""
        every = self.config.evaluate_every
        return self.data is not None and (batches == self.config.batches or (every > 0 and batches % every == 0))


class TestScore:
    """Loss and accuracy over all test images, summed part by part."""

    def __init__(self) -> None:
        self._loss = self._hits = 0.0
        self._count = 0

    def add(self, outputs: Tensor, labels: Tensor) -> None:
        """Add outputs [n, classes] of images whose classes are `labels` [n]."""
        self._loss += float(torch.nn.functional.cross_entropy(outputs, labels, reduction="sum"))
        self._hits += float((outputs.argmax(1) == labels).sum())
        self._count += len(labels)

    def values(self) -> dict[str, float]:
        """Return the metrics."""
        return {"test/loss": self._loss / self._count, "test/accuracy": 100 * self._hits / self._count}
