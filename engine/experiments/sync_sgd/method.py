"""Synchronous parallel SGD: trainers on parts of the data, which wait for each other and average (Zinkevich et al.
2010, Algorithm 3).

Roles: `trainer1…N`, all alike; trainer1 also tests. Each trainer i does in each round:

    x_i <- c
    x_i <- x_i - eta g_i        in each step
    c <- mean of all x_i        when all have arrived

    x_i: its weights, g_i the gradient of a mini-batch of its own part of the data, c the global weights,
    eta the learning rate, N the number of trainers, beta the elastic rate

That is `sync` weights. The other averaging methods:

    elastic             x_i is kept from round to round; when all have arrived  x_i <- x_i + (beta / N) (c - x_i)
                        and  c <- c + beta (mean of x_i - c)      (Zhang, Choromanska and LeCun 2015, EASGD)
    gradients, ddp      x_i <- x_i - eta (mean of all g_i)  in each step, the same for all;  c <- x_i  at the end
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import nll_loss
from torch.nn.parallel import DistributedDataParallel

from engine.experiments.sync_sgd.config import SyncSgdConfig
from engine.experiments.sync_sgd.trainer import SharedInputs, SyncTrainer
from engine.runtime.transport.allreduce import gone_round
from engine.runtime.worker.ranks import Rank, Ranks
from engine.seeding import DROPOUT


def run(config: SyncSgdConfig, ranks: Ranks) -> None:
    """Share the data, train on it in one rank per trainer; return when all have finished."""
    if config.variant == "tutorial":
        from engine.experiments.sync_sgd import tutorial  # only this one imports torchvision, which takes a second

        tutorial.run(config, ranks)
        return
    ranks.run(_train, SharedInputs.create(config, ranks.devices))


def _train(rank: Rank, inputs: SharedInputs) -> None:
    """Run as one trainer: round after round, from the last checkpoint if there is one."""
    config = inputs.config
    with SyncTrainer.joined(rank, inputs) as trainer:
        train_round = _way_to_average(trainer)
        torch.manual_seed(rank.seed_of(DROPOUT))  # dropout's stream starts here, regardless of set-up
        first = trainer.restore()
        trainer.started_at = rank.ready()
        if first > 1:
            trainer.test_if_due(first - 1)
        for number in range(first, config.rounds + 1):
            train_round(number)
            trainer.save_if_due(number)
            trainer.test_if_due(number)
            trainer.record.summarize("round", number, config.rounds)
        with trainer.record.phase("wait"):
            rank.barrier("trained")


def _way_to_average(trainer: SyncTrainer) -> Callable[[int], None]:
    """Return the function that trains for one round, given its number (from 1)."""
    match trainer.config.sync:
        case "weights":
            return partial(_average_weights, trainer)
        case "elastic":
            return partial(_average_elastically, trainer)
        case "gradients":
            return _GradientAverage(trainer).train_round
        case "ddp":
            return _TorchDdp(trainer).train_round


def _average_weights(trainer: SyncTrainer, number: int) -> None:
    """Train independently from the global weights for a round, then average (local SGD, federated averaging)."""
    trainer.net.state.copy_(trainer.global_state)
    _train_alone(trainer, number)
    trainer.store_own_state()
    trainer.mean.copy_(trainer.net.state)
    trainer.average(trainer.mean, f"round {number}")
    with trainer.record.phase("update"):
        trainer.global_state.copy_(trainer.mean)


def _average_elastically(trainer: SyncTrainer, number: int) -> None:
    """Train independently from the trainer's own weights for a round, then pull them and the global weights towards
    each other (equations 5 and 6 of EASGD, every round instead of every step).
    """
    _train_alone(trainer, number)
    beta = trainer.config.elastic_rate
    trainer.mean.copy_(trainer.net.state)
    with trainer.record.phase("update"):
        _pull(trainer.net.state, trainer.global_state, beta / trainer.config.trainers)
    trainer.store_own_state()
    trainer.average(trainer.mean, f"round {number}")
    with trainer.record.phase("update"):
        _pull(trainer.global_state, trainer.mean, beta)


def _train_alone(trainer: SyncTrainer, number: int) -> None:
    """Make a round's steps of plain SGD on the trainer's own part of the data."""
    part, net, optimizer, record = trainer.part, trainer.net, trainer.optimizer, trainer.record
    if not trainer.config.keep_optimizer:
        optimizer.velocity.zero_()
    for step in range(part.steps):
        optimizer.learning_rate = trainer.learning_rate(number, step, part.steps)
        with record.phase("data"):
            images, labels = part.next_batch()
        with record.phase("compute"):
            trainer.faults.inject(trainer.log.steps + 1)
            loss = net.compute_gradient(images, labels)
        with record.phase("update"):
            optimizer.step()
        trainer.log.log_step(loss, len(labels))


def _pull(local: Tensor, center: Tensor, rate: float) -> None:
    """x <- x + rate (c - x), in place."""
    local.add_(center - local, alpha=rate)


# ---- Averaging of gradients ----------------------------------------------------------------------------------------
# The mean of N gradients of b samples is the gradient of N x b samples. A trainer whose part ends before the longest
# one continues without a mini-batch, and the mean is over the others.

Batch = tuple[Tensor, Tensor]


class _GradientAverage:
    """One trainer that averages gradients with our own collective."""

    def __init__(self, trainer: SyncTrainer) -> None:
        self.trainer = trainer

    def train_round(self, number: int) -> None:
        """Make the steps of round `number` (from 1)."""
        trainer, part = self.trainer, self.trainer.part
        if not trainer.config.keep_optimizer:
            trainer.optimizer.velocity.zero_()
        for step in range(part.longest_steps):
            trainer.optimizer.learning_rate = trainer.learning_rate(number, step, part.longest_steps)
            if step >= part.steps:
                self.step(number, step, None)
                continue
            with trainer.record.phase("data"):
                batch = part.next_batch()
            with trainer.record.phase("compute"):
                trainer.faults.inject(trainer.log.steps + 1)
            loss = self.step(number, step, batch)
            trainer.log.log_step(loss, len(batch[1]))
        trainer.global_state.copy_(trainer.net.state)

    def step(self, number: int, step: int, batch: Batch | None) -> float:
        """Make one step on a mini-batch (None if this trainer has finished its part) and return its loss."""
        trainer, net, loss = self.trainer, self.trainer.net, 0.0
        if batch is None:
            net.message.zero_()
        else:
            with trainer.record.phase("compute"):
                loss = net.compute_gradient(*batch)
        self.store_before_last_average(step)
        trainer.average(net.message, f"step {step + 1} of round {number}")
        with trainer.record.phase("update"):
            if (contributors := trainer.part.contributors(step)) < trainer.config.trainers:
                net.message.mul_(
                    trainer.config.trainers / contributors
                )  # the mean over trainers with a mini-batch left
            trainer.optimizer.step()
            net.statistics.copy_(net.message[net.parameters :])
        return loss

    def store_before_last_average(self, step: int) -> None:
        """Store this trainer's own state for a checkpoint before the round's last average."""
        if step == self.trainer.part.longest_steps - 1:
            self.trainer.store_own_state()


class _TorchDdp(_GradientAverage):
    """The same by torch, which sends gradients while it computes others: all of it counts as the phase `compute`,
    including waiting.
    """

    def __init__(self, trainer: SyncTrainer) -> None:
        super().__init__(trainer)
        self._net = DistributedDataParallel(trainer.net.module)
        self._last_batch: Batch | None = None
        self._steps = 0
        """Steps made by this process."""

    def step(self, number: int, step: int, batch: Batch | None) -> float:
        trainer = self.trainer
        # torch always divides by N
        share = trainer.config.trainers / trainer.part.contributors(step) if batch else 0.0
        self._last_batch = batch or self._last_batch
        assert self._last_batch is not None, "a trainer's first step of a round has a mini-batch"
        images, labels = self._last_batch
        what = f"step {step + 1} of round {number}"
        # In the second forward torch has all trainers agree on the order in which gradients became ready, and sends
        # them in that order from then on.
        meeting = trainer.circle.meeting(what) if self._steps == 1 else nullcontext()
        with trainer.record.phase("compute"), meeting, nullcontext() if batch else self._without_draws():
            trainer.net.gradient.zero_()
            loss = nll_loss(self._net(images), labels)
        self._steps += 1
        self.store_before_last_average(step)
        with trainer.record.phase("compute"), trainer.circle.meeting(what):
            (loss * share).backward()  # type: ignore[no-untyped-call]
            value = loss.item()
        trainer.record.exchanged(gone_round(trainer.net.gradient.nbytes, trainer.config.trainers))
        with trainer.record.phase("update"):
            trainer.optimizer.step()
        return value

    def _without_draws(self) -> AbstractContextManager[None]:
        """Return a block that restores dropout's generator at its end, because an idle trainer must not advance its
        stream.
        """
        device = self.trainer.net.state.device
        return torch.random.fork_rng([device] if device.type == "cuda" else [])
