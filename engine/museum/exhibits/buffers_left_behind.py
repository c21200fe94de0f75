"""Batch-norm running statistics that are never sent: trainers learn them, the server's network is tested without."""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from engine.data.nets import evaluate
from engine.data.sets.images import ImageSet
from engine.data.sets.registry import load
from engine.museum.outcome import Broken, ExhibitOutcome

TRAINERS, ROUNDS, BATCH = 2, 40, 64


def wrong(seed: int) -> ExhibitOutcome:
    """Fetch parameters, push gradients, and nothing else."""
    return _trained(seed, with_buffers=False)


def right(seed: int) -> ExhibitOutcome:
    """Send the running statistics with the gradients; the server keeps their mean."""
    return _trained(seed, with_buffers=True)


def _trained(seed: int, with_buffers: bool) -> ExhibitOutcome:
    data = load("digits")
    torch.manual_seed(seed)
    server, trainers = _net(), [_net() for _ in range(TRAINERS)]
    optimizer = torch.optim.SGD(server.parameters(), lr=0.05, momentum=0.5)
    series = {0: evaluate(server, data.test_images, data.test_labels).accuracy}
    for number in range(1, ROUNDS + 1):
        for parameter in server.parameters():
            parameter.grad = torch.zeros_like(parameter)
        for trainer in trainers:
            _learn(trainer, server, data, with_buffers)
        optimizer.step()
        if number % 4 == 0:
            series[number] = evaluate(server, data.test_images, data.test_labels).accuracy
    return ExhibitOutcome(
        {"accuracy": series[ROUNDS], "apart": float((_mean(server) - _mean(trainers[0])).norm())}, series
    )


def _learn(trainer: nn.Module, server: nn.Module, data: ImageSet, with_buffers: bool) -> None:
    """Compute one gradient on the server's parameters and add the trainer's share (and statistics) to the server."""
    with torch.no_grad():
        for mine, theirs in zip(trainer.parameters(), server.parameters(), strict=True):
            mine.copy_(theirs)
    chosen = torch.randint(data.size, (BATCH,))
    trainer.zero_grad()
    cross_entropy(trainer(data.train_images[chosen]), data.train_labels[chosen]).backward()  # type: ignore[no-untyped-call]
    for mine, theirs in zip(trainer.parameters(), server.parameters(), strict=True):
        assert mine.grad is not None and theirs.grad is not None
        theirs.grad += mine.grad / TRAINERS
    if with_buffers:
        for kept, learned in zip(server.buffers(), trainer.buffers(), strict=True):
            kept.copy_(learned if not kept.is_floating_point() else kept.lerp(learned, 1 / TRAINERS))


def _net() -> nn.Module:
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(784, 32),
        nn.BatchNorm1d(32),
        nn.ReLU(),
        nn.Linear(32, 32),
        nn.BatchNorm1d(32),
        nn.ReLU(),
        nn.Linear(32, 10),
        nn.LogSoftmax(1),
    )


def _mean(net: nn.Module) -> Tensor:
    return dict(net.named_buffers())["2.running_mean"]


def invariant(outcome: ExhibitOutcome) -> None:
    """The server's running statistics are the trainers'."""
    apart = outcome.numbers["apart"]
    if apart > 0.5:
        raise Broken(
            f"The server's running means must be within 0.5 of a trainer's; got {apart:.2g}. Send the batch-norm "
            "statistics with the gradients; otherwise the tested network differs from the trained one."
        )
