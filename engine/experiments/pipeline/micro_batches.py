"""A run's batches, split into micro-batches: images or text for the first stage, targets for the last, identical in all
ranks.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import interpolate, one_hot

from engine.data.nets import Score
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
        """Yield the samples of one micro-batch after another, without end: images [n, 3, side, side], those of a vision
        transformer [n, 1, 28, 28], or text [n, 128].
        """
        if self.data is None:
            random = torch.Generator().manual_seed(seed_of(self.config.seed, ORDER, IMAGES))
            while True:
                for count in sizes(self.config.batch_size, self.config.splits):
                    images = torch.empty(count, *self.config.sample_shape, memory_format=torch.channels_last)
                    yield images.normal_(generator=random).to(device)
        for positions in self._positions():
            for part in self._cut(positions):
                yield self._as_samples(self.data.train_images[part]).to(device)

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

    def _as_samples(self, images: Tensor) -> Tensor:
        """Return images [n, 1, 28, 28] as [n, 3, side, side] for a ResNet; those of transformers, and text, as they
        are.
        """
        if images.shape[1:] == self.config.sample_shape:
            return images
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
        """Return some test images or test text, shaped as those to train on."""
        assert self.data is not None
        return self._as_samples(self.data.test_images[part]).to(device)

    def test_labels(self, part: slice, device: torch.device) -> Tensor:
        """Return their classes [n], or the bytes that follow [n, 128]."""
        assert self.data is not None
        return self.data.test_labels[part].to(device)

    def tests_after(self, batches: int) -> bool:
        """Return whether the net is tested after `batches` batches."""
        every = self.config.evaluate_every
        return self.data is not None and (batches == self.config.batches or (every > 0 and batches % every == 0))


class TestScore:
    """Loss and accuracy over all test samples, summed part by part."""

    def __init__(self) -> None:
        self._loss = self._hits = 0.0
        self._count = 0
        self._is_text = False

    def add(self, outputs: Tensor, labels: Tensor) -> None:
        """Add outputs [n, classes] of images whose classes are `labels` [n], or those of text [n, 256, 128] with labels
        [n, 128].
        """
        self._loss += float(torch.nn.functional.cross_entropy(outputs, labels, reduction="sum"))
        self._hits += float((outputs.argmax(1) == labels).sum())
        self._count += labels.numel()
        self._is_text = labels.dim() == 2

    def values(self) -> dict[str, float]:
        """Return the metrics."""
        return Score(self._loss / self._count, 100 * self._hits / self._count, self._is_text).metrics
