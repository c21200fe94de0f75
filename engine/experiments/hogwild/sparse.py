"""Hogwild! under its theorem's assumptions: logistic regression on sparse samples, where each update writes only the
weights it touches.

Roles: `trainer1…N`, all alike; trainer1 also tests, and records the sparsity of the problem.

    loss of a sample (a, y), y = -1 or 1:   log(1 + exp(-y a·x))
    its gradient:                           -y sigmoid(-y a·x) a       zero wherever a is
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import softplus

from engine.data.nets import Score
from engine.data.sparse import SparseProblem, SparseSamples, sparse_problem
from engine.data.tensors import Batches, shared
from engine.experiments.hogwild.config import HogwildConfig
from engine.experiments.hogwild.optimizers import LockedOptimizer, Optimizer, OverwriteSampler, SparseSgd
from engine.runtime.worker.ranks import Rank, Ranks
from engine.seeding import EVALUATION, ORDER
from engine.training.step_log import StepLog

# ---- The three sparsity measures of Hogwild!'s theorem (Recht et al ------------------------------------------------
# 2011, section 2). Ω = max over samples e of |e| the maximum number of weights that one sample touches Δ = max over
# weights v of |{e : v in e}| / |E| the largest fraction of samples that touch one weight ρ = max over samples e of
# |{e' : e' and e have a weight in common}| / |E| the largest fraction of samples that one can collide with All
# three take `indices`, int64 [N, K]: the weights that each of N samples touches, all different within a row.

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


# ---- Sparse --------------------------------------------------------------------------------------------------------

STALENESS_EVERY = 10
"""Steps between recorded staleness values; these steps are short."""


def run(config: HogwildConfig, ranks: Ranks) -> None:
    """Share samples and weights, train in one rank per trainer; return when all have finished."""
    problem = sparse_problem(config.sparse_samples, config.sparse_features, config.sparse_nonzeros)
    weights = shared(torch.zeros(problem.features))
    ranks.run(
        _train, config, problem, sparsity(problem.train.indices), weights, StepLog.shared_counters(config.trainers)
    )


class SparseGradient(NamedTuple):
    """The mean loss of a mini-batch and its gradient: float32 [B, K], one value per index of a sample."""

    loss: Tensor
    gradient: Tensor


def sparse_gradient(samples: SparseSamples, weights: Tensor) -> SparseGradient:
    """Return loss and gradient at these weights; only touched weights are read."""
    margins = samples.labels * (weights[samples.indices] * samples.values).sum(1)
    pull = -samples.labels * torch.sigmoid(-margins) / len(margins)
    return SparseGradient(softplus(-margins).mean(), pull.unsqueeze(1) * samples.values)


def _train(
    rank: Rank, config: HogwildConfig, problem: SparseProblem, known: Sparsity, weights: Tensor, counters: Tensor
) -> None:
    record, train = rank.recorder, problem.train
    sampler = OverwriteSampler(weights, config.overwrites_every, rank.seed_of(EVALUATION))
    sgd = SparseSgd(config.learning_rate, sampler)
    optimizer: Optimizer = LockedOptimizer(sgd, rank) if config.lock else sgd
    batches = Batches(train.values, train.labels, config.batch_size, rank.seed_of(ORDER))
    total = config.epochs * config.samples
    log = StepLog(rank, counters, pass_size=config.samples, total=total, advice=config.divergence_advice)
    rank.ready()
    if rank.index == 0:
        record.log(
            {"theory/omega": known.omega, "theory/delta": known.delta, "theory/rho": known.rho}, step=0, passes=0.0
        )
    for epoch in range(1, config.epochs + 1):
        for positions in batches.epoch():
            with record.phase("data"):
                samples = train.take(positions)
            if log.steps % STALENESS_EVERY == 0:
                log.mark_read()
            with record.phase("compute"):
                loss, gradient = sparse_gradient(samples, weights)
                sgd.set_gradient(samples.indices, gradient)
                value = loss.item()
            with record.phase("update"):
                optimizer.step()
            log.log_step(value, len(positions), sampler.metrics())
        if rank.index == 0 and config.tests_after(epoch):
            _test(weights.clone(), problem.test, log)
        record.summarize("epoch", epoch, config.epochs)
    with record.phase("wait"):
        rank.barrier("trained")
    if rank.index == 0:
        _test(weights, problem.test, log)


def _test(weights: Tensor, samples: SparseSamples, log: StepLog) -> None:
    """Test unchanging weights: a copy while others train, the shared ones after all have finished."""
    with log.record.phase("evaluate"):
        margins = samples.labels * (weights[samples.indices] * samples.values).sum(1)
        log.log_score(Score(softplus(-margins).mean().item(), 100 * (margins > 0).double().mean().item()))
