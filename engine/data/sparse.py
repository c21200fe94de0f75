"""Generated sparse samples of two classes: each has few nonzero features of many, and a true weight vector labels it.

Separate index and value tensors, since torch's sparse tensors can't be sent to another process.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.data.tensors import check_room, shared

SEED = 0
"""Fixed: every run of the same sizes gets the same samples, whatever its seed."""
LABEL_NOISE = 0.05
"""Fraction of labels, in training and test sets, that are flipped."""
TEST_SHARE = 5
"""Training samples per test sample."""


@dataclass(frozen=True)
class SparseSamples:
    """N samples with K features each; a row of values has length 1.

    `indices` int64 [N, K], all different within a row; `values` float32 [N, K]; `labels` float32 [N], -1 or 1.
    """

    indices: Tensor
    values: Tensor
    labels: Tensor

    def take(self, positions: Tensor) -> "SparseSamples":
        """Return the samples at these positions."""
        return SparseSamples(*(part.index_select(0, positions) for part in (self.indices, self.values, self.labels)))

    def cut(self, count: int) -> tuple["SparseSamples", "SparseSamples"]:
        """Return the first `count` samples and the others, both in shared memory."""
        parts = (self.indices, self.values, self.labels)
        return SparseSamples(*(shared(part[:count].clone()) for part in parts)), SparseSamples(
            *(shared(part[count:].clone()) for part in parts)
        )


@dataclass(frozen=True)
class SparseProblem:
    """The training and test samples."""

    train: SparseSamples
    test: SparseSamples
    features: int


def sparse_problem(samples: int, features: int, nonzeros: int) -> SparseProblem:
    """Return a problem with `samples` training samples, with `nonzeros` of `features` in each; the same on each call.

    Raises DataError if shared memory is too small.
    """
    random = torch.Generator().manual_seed(SEED)
    count = samples + max(1, samples // TEST_SHARE)
    check_room("The sparse problem", 12 * count * nonzeros + 4 * count)
    indices = random_subsets(count, features, nonzeros, random)
    values = torch.nn.functional.normalize(torch.randn(count, nonzeros, generator=random))
    truth = torch.randn(features, generator=random)
    labels = torch.where((truth[indices] * values).sum(1) > 0, 1.0, -1.0)
    labels[torch.rand(count, generator=random) < LABEL_NOISE] *= -1
    return SparseProblem(*SparseSamples(indices, values, labels).cut(samples), features)


def random_subsets(count: int, features: int, size: int, random: torch.Generator) -> Tensor:
    """Return `count` subsets of range(features), int64 [count, size], each equally likely (Floyd's algorithm, all rows
    at once).
    """
    chosen = torch.empty(count, size, dtype=torch.int64)
    for column in range(size):
        newest = features - size + column
        drawn = torch.randint(newest + 1, (count,), generator=random)
        taken = (chosen[:, :column] == drawn.unsqueeze(1)).any(1)
        chosen[:, column] = torch.where(taken, newest, drawn)
    return chosen
