"""Batch norm on micro-batches: the gradient error relative to the unsplit network grows with their number."""

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from engine.museum.outcome import Broken, ExhibitOutcome

BATCH, SPLITS = 48, (1, 2, 4, 8, 16)


def wrong(seed: int) -> ExhibitOutcome:
    """Normalize each micro-batch by its own statistics."""
    return _split(seed, frozen=False)


def right(seed: int) -> ExhibitOutcome:
    """Normalize by statistics that don't depend on the splits."""
    return _split(seed, frozen=True)


def _split(seed: int, frozen: bool) -> ExhibitOutcome:
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 10 * 10, 10))
    images, targets = torch.randn(BATCH, 3, 12, 12), torch.randn(BATCH, 10)
    net(images)
    if frozen:
        net[1].eval()
    whole = _gradient(net, images, targets, 1)
    series = {
        splits: 100 * float((_gradient(net, images, targets, splits) - whole).norm() / whole.norm())
        for splits in SPLITS
    }
    return ExhibitOutcome({"off": max(series.values()), "splits": float(SPLITS[-1])}, series)


def _gradient(net: nn.Module, images: Tensor, targets: Tensor, splits: int) -> Tensor:
    """Return the gradient of the batch, summed over its micro-batches."""
    net.zero_grad()
    for some, wanted in zip(images.tensor_split(splits), targets.tensor_split(splits), strict=True):
        (mse_loss(net(some), wanted) * len(some) / BATCH).backward()  # type: ignore[no-untyped-call]
    return torch.cat([parameter.grad.flatten().clone() for parameter in net.parameters() if parameter.grad is not None])


def invariant(outcome: ExhibitOutcome) -> None:
    """The gradient equals the unsplit network's for any number of splits."""
    off = outcome.numbers["off"]
    if off > 0.001:
        raise Broken(
            f"The gradient must match the unsplit network's to 0.001 % for every number of splits; the error is up to "
            f"{off:.2g} %. Freeze the batch-norm statistics."
        )
