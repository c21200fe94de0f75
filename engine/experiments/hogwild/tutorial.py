"""Hogwild! built as the published code is: each trainer starts Python anew and reads image by image through PIL.

Kept for its cost, which the engine variant is compared with. Mended: each trainer keeps to its share of the cores, and
trainer1 tests only when all have ended. The model is the usual one in shared memory, each trainer has an optimizer over
its parameters.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import nll_loss
from torch.optim import SGD
from torch.utils.data import DataLoader

from engine.data.nets import MnistNet, Score, mnist_net
from engine.data.sets.images import PixelSet
from engine.data.sets.pil_images import PilImages, timed
from engine.data.sets.registry import read
from engine.experiments.hogwild.config import HogwildConfig
from engine.experiments.hogwild.tally import Tally
from engine.experiments.hogwild.update import Update
from engine.runtime.worker.ranks import Rank, Ranks


def run(config: HogwildConfig, ranks: Ranks) -> None:
    """Share the model, train it in one rank per trainer; return when all have ended."""
    pixels = read(config.dataset)
    model = mnist_net(config.seed)
    model.share_memory()
    ranks.run(_train, config, pixels, model, Tally.shared_counts(config.trainers))


def _train(rank: Rank, config: HogwildConfig, pixels: PixelSet, model: MnistNet, counts: Tensor) -> None:
    torch.manual_seed(config.seed + rank.index)  # as published
    data = PilImages(pixels.train_pixels, pixels.train_labels, pixels.mean, pixels.deviation)
    loader: DataLoader[Any] = DataLoader(data, batch_size=config.batch_size, shuffle=True)
    optimizer = SGD(model.parameters(), lr=config.learning_rate, momentum=config.momentum)
    tally = Tally(rank, config, counts, len(data))
    update = Update(optimizer, rank, locked=config.lock)
    model.train()
    rank.ready()
    for epoch in range(1, config.epochs + 1):
        for images, labels in timed(loader, tally.record):
            tally.reads()
            with tally.record.phase("compute"):
                optimizer.zero_grad()
                loss = nll_loss(model(images), labels)
                loss.backward()  # type: ignore[no-untyped-call]
                value = loss.item()
            update()
            tally.add(value, len(labels))
        if rank.index == 0 and config.tests_after(epoch):
            _test(model, config, pixels, tally)
    with tally.record.phase("wait"):
        rank.barrier("trained")
    if rank.index == 0:
        _test(model, config, pixels, tally)


def _test(model: MnistNet, config: HogwildConfig, pixels: PixelSet, tally: Tally) -> None:
    """Test the model as the published code does, reading the test images one by one too."""
    loader: DataLoader[Any] = DataLoader(
        PilImages(pixels.test_pixels, pixels.test_labels, pixels.mean, pixels.deviation), batch_size=config.batch_size
    )
    model.eval()
    loss, right = 0.0, 0
    with tally.record.phase("evaluate"), torch.no_grad():
        for images, labels in loader:
            scores = model(images)
            loss += nll_loss(scores, labels, reduction="sum").item()
            right += int((scores.argmax(1) == labels).sum())
    model.train()
    tally.score(Score(loss / len(pixels.test_labels), 100 * right / len(pixels.test_labels)))
