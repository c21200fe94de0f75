"""Partition the training set into one part per trainer."""

from typing import Literal

import torch
from torch import Tensor

Partition = Literal["contiguous", "shuffled", "dirichlet"]


def partition(labels: Tensor, count: int, scheme: Partition, *, alpha: float = 1.0, seed: int = 0) -> list[Tensor]:
    """Return `count` disjoint vectors of positions that together cover `labels` [N]; none is empty while count <= N.

    contiguous: consecutive ranges, the last one takes the remainder. shuffled: the same of a random order. dirichlet:
    for each label, shares drawn from a symmetric Dirichlet distribution; a small `alpha` gives each part few labels
    (Hsu, Qi and Brown 2019, "Measuring the effects of non-identical data distribution").
    """
    random = torch.Generator().manual_seed(seed)
    if scheme == "contiguous":
        return _stretches(torch.arange(len(labels)), count)
    if scheme == "shuffled":
        return _stretches(torch.randperm(len(labels), generator=random), count)
    return _by_label(labels.cpu(), count, alpha, random)


def _stretches(order: Tensor, count: int) -> list[Tensor]:
    size = len(order) // count
    return [order[index * size : (index + 1) * size if index < count - 1 else None] for index in range(count)]


def _by_label(labels: Tensor, count: int, alpha: float, random: torch.Generator) -> list[Tensor]:
    found: list[list[Tensor]] = [[] for _ in range(count)]
    for label in labels.unique():  # type: ignore[no-untyped-call]
        own = (labels == label).nonzero().flatten()
        own = own[torch.randperm(len(own), generator=random)]
        shares = torch._standard_gamma(torch.full((count,), float(alpha)), generator=random).clamp_min(1e-30)
        ends = (shares.cumsum(0) / shares.sum() * len(own)).round().long().tolist()
        for index, piece in enumerate(torch.tensor_split(own, ends[:-1])):
            found[index].append(piece)
    return _none_empty([torch.cat(pieces).sort().values for pieces in found])


def _none_empty(found: list[Tensor]) -> list[Tensor]:
    """Move one sample of the largest part to each empty part."""
    for index, part in enumerate(found):
        if not len(part):
            largest = max(range(len(found)), key=lambda other: len(found[other]))
            found[index], found[largest] = found[largest][-1:], found[largest][:-1]
    return found
