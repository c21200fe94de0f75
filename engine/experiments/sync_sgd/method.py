"""Synchronous parallel SGD: trainers on parts of the data, which wait for each other and average (Zinkevich et al.
2010, Algorithm 3).

Roles: `trainer1…N`, all alike; trainer1 also tests. Each one does, in each round:

    start from the global weights
    train on its own part of the data
    wait until all have come
    the mean of all trainers' weights becomes the global weights
"""

from contextlib import ExitStack
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import nll_loss

from engine.data.allocator import keep_freed_memory
from engine.data.devices import usable
from engine.data.nets import evaluate, mnist_net
from engine.data.sets.images import ImageSet
from engine.data.sets.registry import load
from engine.data.weights import FlatSgd
from engine.experiments.sync_sgd.config import SyncSgdConfig
from engine.experiments.sync_sgd.keeping import Keeping, Shelf
from engine.experiments.sync_sgd.part import Part
from engine.experiments.sync_sgd.tally import Tally
from engine.experiments.sync_sgd.trainer import Trainer
from engine.experiments.sync_sgd.ways import WAYS, Way
from engine.runtime.transport.allreduce import Collective, torch_group
from engine.runtime.worker.ranks import Rank, Ranks
from engine.seeding import DROPOUT, ORDER, WEIGHTS, seed_of
from engine.training.faults import Faults
from engine.training.learner import Learner, flat_state


@dataclass(frozen=True)
class _Common:
    """What all trainers are given."""

    config: SyncSgdConfig
    data: ImageSet
    collective: Collective
    counts: Tensor
    shelf: Shelf
    first: Tensor
    """The weights (and statistics) that all start from."""
    gpu_each: bool


def run(config: SyncSgdConfig, ranks: Ranks) -> None:
    """Share the data, train on it in one rank per trainer; return when all have ended."""
    if config.variant == "tutorial":
        from engine.experiments.sync_sgd import tutorial  # it alone imports torchvision, which takes a second

        tutorial.run(config, ranks)
        return
    devices = [usable(config.device, device) for device in ranks.devices]
    net = mnist_net(seed_of(config.seed, WEIGHTS))
    first, parameters = flat_state(net), sum(parameter.numel() for parameter in net.parameters())
    common = _Common(
        config,
        load(config.dataset),
        Collective.create(config.transport, len(first), config.roles, config.timeout_s),
        Tally.shared_counts(config.trainers),
        Shelf.create(config, len(first), parameters),
        first,
        gpu_each=devices[0].type == "cuda" and len(set(devices)) == len(devices),
    )
    ranks.run(_train, common)


def _train(rank: Rank, common: _Common) -> None:
    keep_freed_memory()
    config, data, record = common.config, common.data.to(rank.device), rank.recorder
    part = Part(config, data, rank.index, rank.seed_of(ORDER))
    learner = Learner(mnist_net(seed_of(config.seed, WEIGHTS)), nll_loss, device=rank.device)
    learner.state.copy_(common.first)
    optimizer = FlatSgd(learner.weights, learner.gradient, config.learning_rate, config.momentum)
    tally = Tally(rank, config, common.counts, data.size, part.samples(config.rounds * part.steps))
    with ExitStack() as groups:
        circle = groups.enter_context(common.collective.join(rank))
        if config.sync == "ddp":
            groups.enter_context(torch_group(rank, "nccl" if common.gpu_each else "gloo", config.timeout_s))
        trainer = Trainer(config, record, learner, optimizer, part, circle)
        way: Way = WAYS[config.sync](trainer)
        keeping = Keeping(rank, trainer, common.shelf, tally)
        faults = Faults(rank, config, rank.index + 1)
        torch.manual_seed(rank.seed_of(DROPOUT))  # dropout draws from here on, whatever the set-up drew
        first = keeping.restore()
        keeping.zero = rank.ready()
        if first > 1 and rank.index == 0 and config.tests_after(first - 1):
            _test(trainer, data, tally)
        for number in range(first, config.rounds + 1):
            way.start(number)
            for step in range(way.steps):
                _step(trainer, way, number, step, tally, faults)
            way.meet(f"round {number}")
            keeping.save_if_due(number)
            if rank.index == 0 and config.tests_after(number):
                _test(trainer, data, tally)
        with record.phase("wait"):
            rank.barrier("trained")


def _step(trainer: Trainer, way: Way, number: int, step: int, tally: Tally, faults: Faults) -> None:
    """Make the round's step number `step` (from 0); a trainer that has gone through its part only goes along."""
    config, record = trainer.config, trainer.record
    if config.schedule == "linear":
        trainer.optimizer.learning_rate = config.learning_rate * (
            1 - ((number - 1) * way.steps + step) / (config.rounds * way.steps)
        )
    if step >= trainer.part.steps:
        way.step(step, None)
        return
    with record.phase("data"):
        batch = trainer.part.take()
    with record.phase("compute"):
        faults.strike(tally.steps + 1)
    tally.add(way.step(step, batch), len(batch[1]))


def _test(trainer: Trainer, data: ImageSet, tally: Tally) -> None:
    """Test a copy of the global weights; the other trainers go on."""
    copy = Learner(mnist_net(seed_of(trainer.config.seed, WEIGHTS)), nll_loss, device=data.test_images.device)
    copy.state.copy_(trainer.center)
    with trainer.record.phase("evaluate"):
        tally.score(evaluate(copy.net, data.test_images, data.test_labels))
