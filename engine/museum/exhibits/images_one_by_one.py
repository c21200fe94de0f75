"""Images read one by one through PIL and transforms in every epoch: as much work as the training step."""

import time
from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.nn.functional import nll_loss
from torch.utils.data import DataLoader

from engine.data.nets import mnist_net
from engine.data.sets.images import PixelSet
from engine.data.sets.pil_images import PilImages
from engine.data.sets.registry import load, read
from engine.museum.outcome import Broken, ExhibitOutcome

BATCH, BATCHES = 64, 12
Batches = Iterator[tuple[Tensor, Tensor]]


class Reads:
    """Counts reads."""

    def __init__(self) -> None:
        self.count = 0


class Counted(PilImages):
    """Images that count their accesses."""

    def __init__(self, pixels: PixelSet, reads: Reads) -> None:
        super().__init__(pixels.train_pixels, pixels.train_labels, pixels.mean, pixels.deviation)
        self.reads = reads

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        self.reads.count += 1
        return super().__getitem__(index)


def wrong(seed: int) -> ExhibitOutcome:
    """Convert each array to an image and back, then collate a batch."""
    return _timed(seed, lambda reads: iter(DataLoader(Counted(read("digits"), reads), batch_size=BATCH, shuffle=True)))


def right(seed: int) -> ExhibitOutcome:
    """Keep the normalized data set as one tensor, and gather each batch from it."""
    data = load("digits")

    def batches(reads: Reads) -> Batches:
        for chosen in torch.split(torch.randperm(data.size), BATCH):
            reads.count += 1
            yield data.train_images[chosen], data.train_labels[chosen]

    return _timed(seed, batches)


def _timed(seed: int, batches: Callable[[Reads], Batches]) -> ExhibitOutcome:
    """Train for some batches; time reading and training separately."""
    torch.manual_seed(seed)
    net, reads = mnist_net(seed), Reads()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    reading, training, each = [], [], batches(reads)
    next(each)
    for _ in range(BATCHES):
        began = time.perf_counter()
        images, labels = next(each)
        read_at = time.perf_counter()
        optimizer.zero_grad()
        nll_loss(net(images), labels).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        reading.append(1000 * (read_at - began))
        training.append(1000 * (time.perf_counter() - read_at))
    read_ms, train_ms = sorted(reading)[BATCHES // 2], sorted(training)[BATCHES // 2]
    share = 100 * read_ms / (read_ms + train_ms)
    numbers = {"reads": reads.count / (BATCHES + 1), "share": share, "read_ms": read_ms, "train_ms": train_ms}
    return ExhibitOutcome(numbers, dict(enumerate(reading, 1)))


def invariant(outcome: ExhibitOutcome) -> None:
    """A mini-batch takes one read."""
    reads, share = outcome.numbers["reads"], outcome.numbers["share"]
    if reads != 1:
        raise Broken(
            f"A mini-batch must take 1 read; got {reads:.0f}, which took {share:.0f} % of a step. Gather batches from "
            "a tensor in memory."
        )
