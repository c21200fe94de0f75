"""Synchronous parallel SGD built as the published code is: a new Python process per trainer and round, images read one
by one.

Kept to measure its cost against the engine variant. Fixed: a trainer trains on a copy of the global weights (the
published one takes over their very storage, and so do all others), the average is taken before the test, and each keeps
to its share of the cores.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import nll_loss
from torch.nn.utils import parameters_to_vector, vector_to_parameters
from torch.optim import SGD
from torch.utils.data import DataLoader, Subset

from engine.data.nets import mnist_net
from engine.data.pil_images import PilImages, evaluate_one_by_one, timed
from engine.data.sets import PixelSet, read
from engine.data.tensors import shared
from engine.experiments.sync_sgd.config import SyncSgdConfig
from engine.recorder import MemoryRecorder
from engine.runtime.rank.process import spawned
from engine.runtime.rank.rank import Checkpoints, load_checkpoint
from engine.runtime.transport.allreduce import AveragingGroup, Collective
from engine.runtime.worker.ranks import Rank, Ranks
from engine.training.settings import rate_factor
from engine.training.step_log import Faults, StepLog
from engine.training.workload import partition

SEEDS_APART = 1_000_003
"""Offset between the seeds of two rounds: each process draws its own order and dropout."""
Send = Callable[[tuple[float, int, dict[str, float]]], None]


def run(config: SyncSgdConfig, ranks: Ranks) -> None:
    """Train in one rank per trainer, each of which starts one process per round; return when all have finished."""
    size = sum(parameter.numel() for parameter in mnist_net(config.seed).parameters())
    collective = Collective.create(config.transport, size, config.roles, config.timeout_s)
    ranks.run(_train, config, read(config.dataset), collective, StepLog.shared_counters(config.trainers))


def _train(rank: Rank, config: SyncSgdConfig, pixels: PixelSet, collective: Collective, counters: Tensor) -> None:
    parts = partition(pixels.train_labels, config.trainers, config.partition, alpha=config.alpha, seed=config.seed)
    own = parts[rank.index]
    weights = shared(parameters_to_vector(mnist_net(config.seed).parameters()).detach().clone())
    size, total = len(pixels.train_labels), config.rounds * len(own)
    log = StepLog(rank, counters, pass_size=size, total=total, advice=config.divergence_advice)
    checkpoints, first = Checkpoints(rank, config.checkpoint_every_s), 1
    if rank.resume_from:
        state = load_checkpoint(rank.resume_from)
        weights.copy_(state["center"])
        first = int(state["round"]) + 1
        log.resume((first - 1) * _steps(config, own), (first - 1) * len(own))
    with collective.join(rank) as circle:
        zero = rank.ready()
        if first > 1 and rank.index == 0 and config.tests_after(first - 1):
            _test(weights, config, pixels, log)
        for number in range(first, config.rounds + 1):
            _train_once(rank, config, pixels, own, weights, number, log)
            _average(circle, weights, number, log)
            if rank.index == 0 and checkpoints.due():
                time_s = rank.time_before_s + circle.latest_s() - zero
                steps = {index: number * _steps(config, part) for index, part in enumerate(parts)}
                state = {"round": number, "center": weights}
                checkpoints.save(state, step=log.steps, passes=float(number), time_s=time_s, steps=steps)
            if rank.index == 0 and config.tests_after(number):
                _test(weights, config, pixels, log)
            log.record.summarize("round", number, config.rounds)
        with log.record.phase("wait"):
            rank.barrier("trained")


def _steps(config: SyncSgdConfig, own: Tensor) -> int:
    return -(-len(own) // config.batch_size)


def _train_once(
    rank: Rank, config: SyncSgdConfig, pixels: PixelSet, own: Tensor, weights: Tensor, number: int, log: StepLog
) -> None:
    """Train on this trainer's part for one round in a new process and record its results; its start counts as the phase
    `other`.
    """
    faults = Faults(rank, config, rank.index + 1)
    with spawned(
        f"{rank.role}'s process of round {number}",
        _go_through,
        config,
        pixels,
        own,
        weights,
        config.seed + rank.index,
        number,
    ) as steps:
        for loss, samples, seconds in steps:
            for phase, spent in seconds.items():
                log.record.spend(phase, spent)
            faults.inject(log.steps + 1)
            log.log_step(loss, samples)


def _go_through(
    send: Send, config: SyncSgdConfig, pixels: PixelSet, own: Tensor, weights: Tensor, seed: int, number: int
) -> None:
    """Make one pass over the part with a copy of the weights and a new optimizer; write the weights back at the end."""
    torch.manual_seed(seed + number * SEEDS_APART)
    model = mnist_net(config.seed)
    vector_to_parameters(weights.clone(), model.parameters())
    data = PilImages(pixels.train_pixels, pixels.train_labels, pixels.mean, pixels.deviation)
    loader: DataLoader[Any] = DataLoader(Subset(data, own.tolist()), batch_size=config.batch_size, shuffle=True)
    optimizer = SGD(model.parameters(), lr=config.learning_rate, momentum=config.momentum)
    record = MemoryRecorder()
    for step, (images, labels) in enumerate(timed(loader, record), (number - 1) * len(loader)):
        factor = rate_factor(config.schedule, step, config.rounds * len(loader))
        optimizer.param_groups[0]["lr"] = config.learning_rate * factor
        with record.phase("compute"):
            optimizer.zero_grad()
            loss = nll_loss(model(images), labels)
            loss.backward()  # type: ignore[no-untyped-call]
            value = loss.item()
        with record.phase("update"):
            optimizer.step()
        send((value, len(labels), dict(record.phases)))
        record.phases.clear()
    weights.copy_(parameters_to_vector(model.parameters()).detach())


def _average(circle: AveragingGroup, weights: Tensor, number: int, log: StepLog) -> None:
    """Make the global weights the mean of all trainers' weights."""
    with log.record.phase("communicate"):
        waited = circle.average(weights, f"round {number}")
    log.record.spend("wait", waited)
    log.record.spend("communicate", -waited)


def _test(weights: Tensor, config: SyncSgdConfig, pixels: PixelSet, log: StepLog) -> None:
    """Test the global weights as the published code does, also reading the test images one by one."""
    model = mnist_net(config.seed)
    vector_to_parameters(weights, model.parameters())
    with log.record.phase("evaluate"):
        log.log_score(evaluate_one_by_one(model, pixels, config.batch_size))
