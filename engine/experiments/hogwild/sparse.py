"""Hogwild! on what its theorem is about: logistic regression on sparse samples, each update writing only the weights it
touches.

Roles: `trainer1…N`, all alike; trainer1 also tests, and records how sparse the problem is.

    loss of a sample (a, y), y = -1 or 1:   log(1 + exp(-y a·x))
    its gradient:                           -y sigmoid(-y a·x) a       zero wherever a is
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import softplus

from engine.data.batches import Batches
from engine.data.nets import Score
from engine.data.sets.sparse import SparseProblem, SparseSamples, sparse_problem
from engine.data.shared_tensors import shared
from engine.experiments.hogwild.config import HogwildConfig
from engine.experiments.hogwild.overwrites import Overwrites
from engine.experiments.hogwild.tally import Tally
from engine.experiments.hogwild.theory import Sparsity, sparsity
from engine.experiments.hogwild.update import Update
from engine.runtime.worker.ranks import Rank, Ranks
from engine.seeding import EVALUATION, ORDER

STALENESS_EVERY = 10
"""Of so many gradients one's staleness is recorded: these steps are short."""


def run(config: HogwildConfig, ranks: Ranks) -> None:
    """Share samples and weights, train in one rank per trainer; return when all have ended."""
    problem = sparse_problem(config.sparse_samples, config.sparse_features, config.sparse_nonzeros)
    weights = shared(torch.zeros(problem.features))
    ranks.run(_train, config, problem, sparsity(problem.train.indices), weights, Tally.shared_counts(config.trainers))


class Slope(NamedTuple):
    """The mean loss of a mini-batch and its gradient: float32 [B, K], each value belonging to the weight of its
    sample's index.
    """

    loss: Tensor
    gradient: Tensor


def slope(samples: SparseSamples, weights: Tensor) -> Slope:
    """Return loss and gradient at these weights, of which only the touched ones are read."""
    margins = samples.labels * (weights[samples.indices] * samples.values).sum(1)
    pull = -samples.labels * torch.sigmoid(-margins) / len(margins)
    return Slope(softplus(-margins).mean(), pull.unsqueeze(1) * samples.values)


class SparseSgd:
    """SGD that writes the weights of one mini-batch alone; without momentum, which would move all others too."""

    def __init__(self, learning_rate: float, overwrites: Overwrites) -> None:
        self._overwrites = overwrites
        self._learning_rate = learning_rate
        self._touched = self._change = torch.empty(0)

    def aim(self, touched: Tensor, gradient: Tensor) -> None:
        """Say what the next step writes: `touched` int64, `gradient` float32 of the same shape; a weight may come
        several times.
        """
        self._touched, self._change = touched.flatten(), gradient.flatten() * -self._learning_rate

    def step(self) -> None:
        """weights[touched] <- weights[touched] - learning_rate * gradient, one addition per value."""
        self._overwrites.write(self._add, self._touched)

    def _add(self, weights: Tensor) -> None:
        weights.index_add_(0, self._touched, self._change)


def _train(
    rank: Rank, config: HogwildConfig, problem: SparseProblem, known: Sparsity, weights: Tensor, counts: Tensor
) -> None:
    record, train = rank.recorder, problem.train
    overwrites = Overwrites(weights, config.overwrites_every, rank.seed_of(EVALUATION))
    optimizer = SparseSgd(config.learning_rate, overwrites)
    update = Update(optimizer, rank, locked=config.lock)
    batches = Batches(train.values, train.labels, config.batch_size, rank.seed_of(ORDER))
    tally = Tally(rank, config, counts, config.samples)
    rank.ready()
    if rank.index == 0:
        record.log(
            {"theory/omega": known.omega, "theory/delta": known.delta, "theory/rho": known.rho}, step=0, passes=0.0
        )
    for epoch in range(1, config.epochs + 1):
        for positions in batches.epoch():
            with record.phase("data"):
                samples = train.take(positions)
            if tally.steps % STALENESS_EVERY == 0:
                tally.reads()
            with record.phase("compute"):
                loss, gradient = slope(samples, weights)
                optimizer.aim(samples.indices, gradient)
                value = loss.item()
            update()
            tally.add(value, len(positions), overwrites.share())
        if rank.index == 0 and config.tests_after(epoch):
            _test(weights.clone(), problem.test, tally)
    with record.phase("wait"):
        rank.barrier("trained")
    if rank.index == 0:
        _test(weights, problem.test, tally)


def _test(weights: Tensor, samples: SparseSamples, tally: Tally) -> None:
    """Test weights that stand still: a copy while others train, the shared ones when nobody does."""
    with tally.record.phase("evaluate"):
        margins = samples.labels * (weights[samples.indices] * samples.values).sum(1)
        tally.score(Score(softplus(-margins).mean().item(), 100 * (margins > 0).double().mean().item()))
