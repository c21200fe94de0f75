"""Hogwild! built as the published code is: each trainer is a new Python process and reads image by image through PIL.

Kept to measure its cost against the engine variant. Fixed: each trainer keeps to its share of the cores, and trainer1
tests only after all have finished. The model is the usual one in shared memory, each trainer has an optimizer over its
parameters.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import nll_loss
from torch.optim import SGD
from torch.utils.data import DataLoader

from engine.data.nets import MnistNet, mnist_net
from engine.data.pil_images import PilImages, evaluate_one_by_one, timed
from engine.data.sets import PixelSet, read
from engine.experiments.hogwild.config import HogwildConfig
from engine.experiments.hogwild.optimizers import LockedOptimizer, Optimizer
from engine.runtime.worker.ranks import Rank, Ranks
from engine.training.step_log import StepLog


def run(config: HogwildConfig, ranks: Ranks) -> None:
    """Share the model, train it in one rank per trainer; return when all have finished."""
    pixels = read(config.dataset)
    model = mnist_net(config.seed)
    model.share_memory()
    ranks.run(_train, config, pixels, model, StepLog.shared_counters(config.trainers))


def _train(rank: Rank, config: HogwildConfig, pixels: PixelSet, model: MnistNet, counters: Tensor) -> None:
    torch.manual_seed(config.seed + rank.index)  # as published
    data = PilImages(pixels.train_pixels, pixels.train_labels, pixels.mean, pixels.deviation)
    loader: DataLoader[Any] = DataLoader(data, batch_size=config.batch_size, shuffle=True)
    sgd = SGD(model.parameters(), lr=config.learning_rate, momentum=config.momentum)
    optimizer: Optimizer = LockedOptimizer(sgd, rank) if config.lock else sgd
    total = config.epochs * len(data)
    log = StepLog(rank, counters, pass_size=len(data), total=total, advice=config.divergence_advice)
    model.train()
    rank.ready()
    for epoch in range(1, config.epochs + 1):
        for images, labels in timed(loader, log.record):
            log.mark_read()
            with log.record.phase("compute"):
                sgd.zero_grad()
                loss = nll_loss(model(images), labels)
                loss.backward()  # type: ignore[no-untyped-call]
                value = loss.item()
            with log.record.phase("update"):
                optimizer.step()
            log.log_step(value, len(labels))
        if rank.index == 0 and config.tests_after(epoch):
            _test(model, config, pixels, log)
        log.record.summarize("epoch", epoch, config.epochs)
    with log.record.phase("wait"):
        rank.barrier("trained")
    if rank.index == 0:
        _test(model, config, pixels, log)


def _test(model: MnistNet, config: HogwildConfig, pixels: PixelSet, log: StepLog) -> None:
    with log.record.phase("evaluate"):
        log.log_score(evaluate_one_by_one(model, pixels, config.batch_size))
