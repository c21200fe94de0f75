"""The three sparsity measures of Hogwild!'s theorem (Recht et al. 2011, section 2).

    Ω = max over samples e of |e|                        the maximum number of weights that one sample touches
    Δ = max over weights v of |{e : v in e}| / |E|       the largest fraction of samples that touch one weight
    ρ = max over samples e of |{e' : e' and e have a weight in common}| / |E|
                                                         the largest fraction of samples that one can collide with

All three take `indices`, int64 [N, K]: the weights that each of N samples touches, all different within a row.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Sparsity:
    """Sparsity of a problem; a sample shares its weights with itself, so ρ is never 0."""

    omega: int
    delta: float
    rho: float


def sparsity(indices: Tensor) -> Sparsity:
    """Return the exact numbers of a set of samples."""
    rows = indices.numpy()
    return Sparsity(omega(rows), delta(rows), rho(rows))


def omega(indices: Indices) -> int:
    """Return the maximum number of weights that one sample touches."""
    return int(indices.shape[1])


def delta(indices: Indices) -> float:
    """Return the largest fraction of samples that touch one weight."""
    return float(np.bincount(indices.ravel()).max()) / len(indices)


def rho(indices: Indices) -> float:
    """Return the largest fraction of samples that share a weight with one sample, including itself.

    Visits the samples in order of an upper bound, the sum over their weights of the samples that touch each, and stops
    when no remaining bound exceeds the maximum found: a few dozen of sparse samples, all of dense ones.
    """
    touching = _samples_by_weight(indices)
    counts = np.array([len(samples) for samples in touching])
    bounds = np.minimum(counts[indices].sum(axis=1), len(indices))
    most = 0
    for sample in np.argsort(-bounds, kind="stable"):
        if bounds[sample] <= most:
            break
        met = np.zeros(len(indices), dtype=np.bool_)
        met[np.concatenate([touching[weight] for weight in indices[sample]])] = True
        most = max(most, int(np.count_nonzero(met)))
    return most / len(indices)


def _samples_by_weight(indices: Indices) -> list[Indices]:
    """Return the samples that touch each weight."""
    flat = indices.ravel()
    samples = np.argsort(flat, kind="stable") // indices.shape[1]
    return np.split(samples, np.cumsum(np.bincount(flat))[:-1])
