"""Sizes used as counts: a fault of pipeline.

source: PyTorch's tutorial on pipeline parallelism by RPC; the published times come from a discussion of its example
wrong: The sweep's split count is passed to `split`, which expects the size of a piece: 1, 2, 4 and 8 made 120, 60, 30
    and 15 micro-batches.
right: `splits` is the number of micro-batches, cut as evenly as possible.
seen: The two lines run in opposite directions, which reverses the conclusion: not more splits were faster, but fewer,
    larger micro-batches. The unpipelined point was never measured.
chart: Micro-batches against Splits, as named by the sweep
values: micro_batches = Micro-batches at splits = 1 (micro-batches); images_each = Images per micro-batch (images);
    ms_per_image = Forward and backward per image (ms); asked = Requested (micro-batches)
rule: micro_batches = asked
broken: {asked:.0f} split must give {asked:.0f} micro-batch; got {micro_batches:.0f}. Cutting by size reverses the
    conclusion from the published times.
guard: tests/pipelining/test_schedules.py::test_a_batch_is_cut_as_evenly_as_it_goes
"""

import time
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from engine.museum.exhibit import Outcome, Version

BATCH, SPLITS, SIDE = 120, (1, 2, 4, 8), 24


def wrong(images: Tensor, splits: int) -> Sequence[Tensor]:
    return torch.split(images, splits)


def right(images: Tensor, splits: int) -> Sequence[Tensor]:
    return images.tensor_split(splits)


def measure(seed: int, pieces: Version) -> Outcome:
    """Cut one batch for each number of splits; with 1 split, time a small network over the micro-batches."""
    torch.manual_seed(seed)
    images = torch.randn(BATCH, 3, SIDE, SIDE)
    convolutions = nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.ReLU()
    net = nn.Sequential(*convolutions, nn.Flatten(), nn.LazyLinear(10))
    net(images[:1])
    series = {splits: len(pieces(images, splits)) for splits in SPLITS}
    ms = min(_pass_ms(net, pieces(images, 1)) for _ in range(2))
    each = {"images_each": BATCH / series[1], "ms_per_image": ms / BATCH}
    return Outcome({"micro_batches": series[1], "asked": 1, **each}, series)


def _pass_ms(net: nn.Module, micro_batches: Sequence[Tensor]) -> float:
    began = time.perf_counter()
    for micro_batch in micro_batches:
        net(micro_batch).sum().backward()
    return 1000 * (time.perf_counter() - began)
