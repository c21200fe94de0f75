"""A batch cut by a split count that is used as a size: few splits make many micro-batches."""

import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from engine.museum.outcome import Broken, ExhibitOutcome

BATCH, SPLITS, SIDE = 120, (1, 2, 4, 8), 24


def wrong(seed: int) -> ExhibitOutcome:
    """Pass the number to `split`, which expects the size of a piece."""
    return _cut(seed, lambda images, splits: torch.split(images, splits))


def right(seed: int) -> ExhibitOutcome:
    """Cut into this number of pieces."""
    return _cut(seed, lambda images, splits: images.tensor_split(splits))


def _cut(seed: int, pieces: Callable[[Tensor, int], Sequence[Tensor]]) -> ExhibitOutcome:
    """Cut one batch for each number of splits; with 1 split, time a small network over the micro-batches."""
    torch.manual_seed(seed)
    images = torch.randn(BATCH, 3, SIDE, SIDE)
    net = nn.Sequential(
        nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(10)
    )
    net(images[:1])
    series = {splits: float(len(pieces(images, splits))) for splits in SPLITS}
    per_image = min(_pass_ms(net, pieces(images, 1)) for _ in range(2)) / BATCH
    return ExhibitOutcome(
        {"micro_batches": series[1], "images_each": BATCH / series[1], "ms_per_image": per_image, "asked": 1.0}, series
    )


def _pass_ms(net: nn.Module, micro_batches: Sequence[Tensor]) -> float:
    began = time.perf_counter()
    for micro_batch in micro_batches:
        net(micro_batch).sum().backward()
    return 1000 * (time.perf_counter() - began)


def invariant(outcome: ExhibitOutcome) -> None:
    """One split is one micro-batch."""
    found, asked = outcome.numbers["micro_batches"], outcome.numbers["asked"]
    if found != asked:
        raise Broken(
            f"{asked:.0f} split must give {asked:.0f} micro-batch; got {found:.0f}. Cutting by size reverses the "
            "conclusion from the published times."
        )
