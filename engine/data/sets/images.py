"""An image set in two forms for training: raw pixels, and normalized tensors."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from engine.data.tensors import check_room, shared

CHUNK = 1000
"""Images normalized at a time: few enough that both forms fit in the cache."""


@dataclass(frozen=True)
class PixelSet:
    """Images as pixels 0 to 255 (uint8 [N, 28, 28]) with labels (int64 [N]), and their normalization."""

    name: str
    train_pixels: Tensor
    train_labels: Tensor
    test_pixels: Tensor
    test_labels: Tensor
    mean: float
    """Of the training part, on a scale of 0 to 1."""
    deviation: float
    classes: int = 10


@dataclass(frozen=True)
class ImageSet:
    """Normalized images (float32 [N, 1, 28, 28]) with labels (int64 [N]).

    With one channel, channels-last and the default order are the same in memory, so these tensors are both.
    """

    name: str
    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor
    classes: int = 10

    @property
    def size(self) -> int:
        """The number of training samples, which is the size of one pass."""
        return len(self.train_labels)

    def to(self, device: torch.device) -> "ImageSet":
        """Return the set in that device's memory; the same object if it is already there."""
        return replace(
            self,
            train_images=self.train_images.to(device),
            train_labels=self.train_labels.to(device),
            test_images=self.test_images.to(device),
            test_labels=self.test_labels.to(device),
        )


def shared_images(pixels: PixelSet) -> ImageSet:
    """Return the set normalized, in shared memory; raises DataError if that is too small."""
    check_room(f"Data set {pixels.name}", 4 * (pixels.train_pixels.numel() + pixels.test_pixels.numel()))
    return ImageSet(
        pixels.name,
        _normalized(pixels.train_pixels, pixels.mean, pixels.deviation),
        shared(pixels.train_labels),
        _normalized(pixels.test_pixels, pixels.mean, pixels.deviation),
        shared(pixels.test_labels),
        pixels.classes,
    )


def mean_and_deviation(pixels: Tensor) -> tuple[float, float]:
    """Return mean and standard deviation of pixels on a scale of 0 to 1."""
    scaled = pixels.double().div_(255)
    return float(scaled.mean()), float(scaled.std(correction=0))


def _normalized(pixels: Tensor, mean: float, deviation: float) -> Tensor:
    # Shared while empty and then filled chunk by chunk: half the time of normalizing first and copying afterwards.
    images = shared(torch.empty(len(pixels), 1, *pixels.shape[1:]))
    for source, target in zip(torch.split(pixels, CHUNK), torch.split(images, CHUNK), strict=True):
        torch.div(source.unsqueeze(1), 255, out=target).sub_(mean).div_(deviation)
    return images
