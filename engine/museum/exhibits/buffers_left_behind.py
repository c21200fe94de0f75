"""Batch-norm statistics not sent: a fault of parameter_server.

source: PyTorch's tutorial on batch RPC processing: the parameter server
wrong: Trainers push gradients of parameters. The running means and variances of batch norm are buffers without
    gradients and stay in the trainers: the server's network, which is tested and saved, normalizes with its initial
    values.
right: The statistics are sent with the gradients, and the server keeps their mean.
seen: Both networks were trained with the same gradients. The one without the statistics has the lower accuracy.
chart: Test accuracy of the server's network (%) against Round
values: accuracy = Test accuracy (%); apart = Distance of running means, server to trainer
rule: apart <= 0.5
broken: The server's running means must be within 0.5 of a trainer's; got {apart:.2g}. Send the batch-norm statistics
    with the gradients; otherwise the tested network differs from the trained one.
guard: tests/experiments/servers/test_server_runs.py::test_running_statistics_travel_with_the_weights
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from engine.data.nets import evaluate
from engine.data.sets import load
from engine.museum.exhibit import Outcome, Version

TRAINERS, ROUNDS, BATCH = 2, 40, 64


def wrong(server: nn.Module, trainer: nn.Module) -> None:
    _push_gradients(server, trainer)


def right(server: nn.Module, trainer: nn.Module) -> None:
    _push_gradients(server, trainer)
    for kept, learned in zip(server.buffers(), trainer.buffers(), strict=True):
        kept.copy_(kept.lerp(learned, 1 / TRAINERS) if kept.is_floating_point() else learned)


def measure(seed: int, push: Version) -> Outcome:
    """Train the server's network; test it every four rounds."""
    data = load("digits")
    torch.manual_seed(seed)
    server, *trainers = (_net() for _ in range(1 + TRAINERS))
    optimizer = torch.optim.SGD(server.parameters(), lr=0.05, momentum=0.5)
    series = {0: evaluate(server, data.test_images, data.test_labels).accuracy}
    for number in range(1, ROUNDS + 1):
        optimizer.zero_grad()
        for trainer in trainers:
            for mine, theirs in zip(trainer.parameters(), server.parameters(), strict=True):
                mine.data.copy_(theirs.data)
            chosen = torch.randint(data.size, (BATCH,))
            trainer.zero_grad()
            cross_entropy(trainer(data.train_images[chosen]), data.train_labels[chosen]).backward()  # type: ignore[no-untyped-call]
            push(server, trainer)
        optimizer.step()
        if number % 4 == 0:
            series[number] = evaluate(server, data.test_images, data.test_labels).accuracy
    return Outcome({"accuracy": series[ROUNDS], "apart": float((_mean(server) - _mean(trainers[0])).norm())}, series)


def _push_gradients(server: nn.Module, trainer: nn.Module) -> None:
    for theirs, mine in zip(server.parameters(), trainer.parameters(), strict=True):
        assert mine.grad is not None
        share = mine.grad / TRAINERS
        theirs.grad = share if theirs.grad is None else theirs.grad + share


def _net() -> nn.Module:
    hidden = [nn.Linear(784, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 32), nn.BatchNorm1d(32), nn.ReLU()]
    return nn.Sequential(nn.Flatten(), *hidden, nn.Linear(32, 10), nn.LogSoftmax(1))


def _mean(net: nn.Module) -> Tensor:
    return dict(net.named_buffers())["2.running_mean"]
