"""Batch norm by micro-batch: a fault of pipeline.

source: PyTorch's tutorial on pipeline parallelism by RPC
wrong: Each micro-batch is normalized by its own mean and variance, so the gradient of a batch depends on the number of
    splits.
right: With fixed statistics it doesn't, and the engine is tested this way. Training can still use per-micro-batch
    statistics; the form explains the consequence.
seen: Distance of the gradient from the unsplit network's, by number of splits.
chart: Gradient error (%) against Splits
values: off = Largest error (%); splits = Largest number of splits (splits)
rule: off <= 0.001
broken: The gradient must match the unsplit network's to 0.001 % for every number of splits; the error is up to
    {off:.2g} %. Freeze the batch-norm statistics.
guard:
    tests/experiments/pipeline/test_pipeline.py::test_gradients_are_those_of_the_net_in_one_piece_for_every_number_of_splits
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from engine.museum.exhibit import Outcome, Version

BATCH, SPLITS = 48, (1, 2, 4, 8, 16)


def wrong(norm: nn.BatchNorm2d) -> None:
    norm.train()


def right(norm: nn.BatchNorm2d) -> None:
    norm.eval()


def measure(seed: int, prepare: Version) -> Outcome:
    """Compute one batch's gradient by different numbers of micro-batches, and its distance from that of the whole."""
    torch.manual_seed(seed)
    norm = nn.BatchNorm2d(8)
    net = nn.Sequential(nn.Conv2d(3, 8, 3), norm, nn.ReLU(), nn.Flatten(), nn.Linear(8 * 10 * 10, 10))
    images, targets = torch.randn(BATCH, 3, 12, 12), torch.randn(BATCH, 10)
    net(images)
    prepare(norm)
    gradients = {splits: _gradient(net, images, targets, splits) for splits in SPLITS}
    series = {
        splits: 100 * float((each - gradients[1]).norm() / gradients[1].norm()) for splits, each in gradients.items()
    }
    return Outcome({"off": max(series.values()), "splits": SPLITS[-1]}, series)


def _gradient(net: nn.Module, images: Tensor, targets: Tensor, splits: int) -> Tensor:
    """Return the gradient of the batch, summed over its micro-batches."""
    net.zero_grad()
    for some, wanted in zip(images.tensor_split(splits), targets.tensor_split(splits), strict=True):
        (mse_loss(net(some), wanted) * len(some) / BATCH).backward()  # type: ignore[no-untyped-call]
    return torch.cat([parameter.grad.flatten() for parameter in net.parameters() if parameter.grad is not None])
