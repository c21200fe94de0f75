"""Images made and transformed one by one, as torchvision's own data sets do it: what the tutorial variants read."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset
from torchvision import transforms

from engine.recorder import Recorder

T = TypeVar("T")


class PilImages(Dataset[tuple[Tensor, int]]):
    """Pixels (uint8 [N, 28, 28]) and labels, each image going through PIL and the published transforms when it is asked
    for.
    """

    def __init__(self, pixels: Tensor, labels: Tensor, mean: float, deviation: float) -> None:
        self.pixels = pixels
        self.labels = labels
        self.transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((mean,), (deviation,))])

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.transform(Image.fromarray(self.pixels[index].numpy())), int(self.labels[index])


def timed(batches: Iterable[T], record: Recorder) -> Iterator[T]:
    """Yield a loader's batches, the time it takes for them counted as `data`."""
    each = iter(batches)
    while True:
        with record.phase("data"):
            batch = next(each, None)
        if batch is None:
            return
        yield batch
