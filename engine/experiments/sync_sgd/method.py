"""Synchronous parallel SGD: trainers on parts of the data, which wait for each other and average (Zinkevich et al.
2010, Algorithm 3).

Roles: `trainer1…N`, all alike; trainer1 also tests. Each trainer i does in each round:

    x_i <- c
    x_i <- x_i - eta g_i        in each step
    c <- mean of all x_i        when all have arrived

    x_i: its weights, g_i the gradient of a mini-batch of its own part of the data, c the global weights,
    eta the learning rate, N the number of trainers, beta the elastic rate

That is `sync` weights. The other averaging methods:

    diloco              an outer optimizer steps from c towards the mean, of all weights at once or of fragments in
                        turn; the steps before may be AdamW's      (`diloco.py`; Douillard et al. 2023, 2025)
    elastic             x_i is kept from round to round; when all have arrived  x_i <- x_i + (beta / N) (c - x_i)
                        and  c <- c + beta (mean of x_i - c)      (Zhang, Choromanska and LeCun 2015, EASGD)
    gradients, ddp      x_i <- x_i - eta (mean of all g_i)  in each step, the same for all      (`gradients.py`; with
                        a compressed g_i, `compression.py`)
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from engine.experiments.sync_sgd.config import SyncSgdConfig
from engine.experiments.sync_sgd.diloco import OuterAverage
from engine.experiments.sync_sgd.gradients import GradientAverage, TorchDdp
from engine.experiments.sync_sgd.trainer import SharedInputs, SyncTrainer
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
        case "diloco":
            return OuterAverage(trainer).train_round
        case "elastic":
            return partial(_average_elastically, trainer)
        case "gradients":
            return GradientAverage(trainer).train_round
        case "ddp":
            return TorchDdp(trainer).train_round


def _average_weights(trainer: SyncTrainer, number: int) -> None:
    """Train independently from the global weights for a round, then average (local SGD, federated averaging)."""
    trainer.net.state.copy_(trainer.global_state)
    trainer.train_alone(number)
    trainer.store_own_state()
    trainer.mean.copy_(trainer.net.state)
    trainer.average(trainer.mean, f"round {number}")
    with trainer.record.phase("update"):
        trainer.global_state.copy_(trainer.mean)


def _average_elastically(trainer: SyncTrainer, number: int) -> None:
    """Train independently from the trainer's own weights for a round, then pull them and the global weights towards
    each other (equations 5 and 6 of EASGD, every round instead of every step).
    """
    trainer.train_alone(number)
    beta = trainer.config.elastic_rate
    trainer.mean.copy_(trainer.net.state)
    with trainer.record.phase("update"):
        _pull(trainer.net.state, trainer.global_state, beta / trainer.config.trainers)
    trainer.store_own_state()
    trainer.average(trainer.mean, f"round {number}")
    with trainer.record.phase("update"):
        _pull(trainer.global_state, trainer.mean, beta)


def _pull(local: Tensor, center: Tensor, rate: float) -> None:
    """x <- x + rate (c - x), in place."""
    local.add_(center - local, alpha=rate)
