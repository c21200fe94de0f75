"""Images decoded and transformed one by one, as torchvision's own data sets do it: the input of the tutorial
variants.
"""

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn.functional import nll_loss
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

from engine.data.nets import Score
from engine.data.sets import PixelSet
from engine.recorder import Recorder

T = TypeVar("T")


class PilImages(Dataset[tuple[Tensor, int]]):
    """Pixels (uint8 [N, 28, 28]) and labels; each access sends an image through PIL and the published transforms."""

    def __init__(self, pixels: Tensor, labels: Tensor, mean: float, deviation: float) -> None:
        self.pixels = pixels
        self.labels = labels
        self.transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((mean,), (deviation,))])

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.transform(Image.fromarray(self.pixels[index].numpy())), int(self.labels[index])


def timed(batches: Iterable[T], record: Recorder) -> Iterator[T]:
    """Yield a loader's batches, and count the time they take as `data`."""
    each = iter(batches)
    while True:
        with record.phase("data"):
            batch = next(each, None)
        if batch is None:
            return
        yield batch


def evaluate_one_by_one(net: nn.Module, pixels: PixelSet, batch_size: int) -> Score:
    """Return the net's score on the test images read one by one, without dropout; restores its mode afterwards."""
    images = PilImages(pixels.test_pixels, pixels.test_labels, pixels.mean, pixels.deviation)
    loader: DataLoader[Any] = DataLoader(images, batch_size=batch_size)
    was_training = net.training
    net.eval()
    loss, right = 0.0, 0
    with torch.no_grad():
        for inputs, labels in loader:
            scores = net(inputs)
            loss += nll_loss(scores, labels, reduction="sum").item()
            right += int((scores.argmax(1) == labels).sum())
    net.train(was_training)
    return Score(loss / len(images), 100 * right / len(images))
