"""Images read one by one: a fault of hogwild.

source: The blog series on parallel SGD: the data loader of all three programs
wrong: Each image is taken from an array, converted to a PIL image, transformed back into an array and collated, in
    every epoch and every process.
right: The normalized data set is one tensor in memory, shared by all ranks; a batch is one gather.
seen: Time to read each mini-batch of 64 images. Reading takes about as long as the training step, so half of the
    compared training time was reading.
chart: Reading (ms) against Mini-batch
values: reads = Reads per mini-batch (reads); share = Reading share of a step (%); read_ms = Reading (ms); train_ms =
    Training (ms)
rule: reads = 1
broken: A mini-batch must take 1 read; got {reads:.0f}, which took {share:.0f} % of a step. Gather batches from a tensor
    in memory.
guard: tests/data/test_datasets.py::test_tensors_lie_in_shared_memory_channels_last
"""

import time
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn.functional import nll_loss
from torch.utils.data import DataLoader

from engine.data.nets import mnist_net
from engine.data.pil_images import PilImages
from engine.data.sets import load, read
from engine.museum.exhibit import Outcome, Version

BATCH, BATCHES = 64, 12


class Counted(PilImages):
    """Images that count how often one is read."""

    def __init__(self, reads: list[object]) -> None:
        pixels = read("digits")
        super().__init__(pixels.train_pixels, pixels.train_labels, pixels.mean, pixels.deviation)
        self.reads = reads

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        self.reads.append(index)
        return super().__getitem__(index)


def wrong(reads: list[object]) -> Iterator[tuple[Tensor, Tensor]]:
    yield from DataLoader(Counted(reads), batch_size=BATCH, shuffle=True)


def right(reads: list[object]) -> Iterator[tuple[Tensor, Tensor]]:
    data = load("digits")
    for chosen in torch.split(torch.randperm(data.size), BATCH):
        reads.append(chosen)
        yield data.train_images[chosen], data.train_labels[chosen]


def measure(seed: int, batches: Version) -> Outcome:
    """Train for some batches; time reading and training separately."""
    torch.manual_seed(seed)
    net, reads, reading, training = mnist_net(seed), list[object](), list[float](), list[float]()
    optimizer, each = torch.optim.SGD(net.parameters(), lr=0.01), batches(reads)
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
    numbers = {"reads": len(reads) / (BATCHES + 1), "share": share, "read_ms": read_ms, "train_ms": train_ms}
    return Outcome(numbers, dict(enumerate(reading, 1)))
