"""Two methods compared after the same number of epochs, though one makes four times the passes and updates."""

import torch
from torch import nn
from torch.nn.functional import nll_loss

from engine.data.nets import evaluate
from engine.data.sets.images import ImageSet
from engine.data.sets.registry import load
from engine.museum.outcome import Broken, ExhibitOutcome

TRAINERS, EPOCHS, BATCH = 4, 6, 64
SMALL_STEP, LARGE_STEP = 0.01, 0.02
"""Step sizes at a ratio of 1 to 2, like lr/(1 - momentum) in the two publications."""


def wrong(seed: int) -> ExhibitOutcome:
    """Give each Hogwild! trainer a full pass per epoch, and the server's trainers one shared pass."""
    return _compared(seed, passes_of_hogwild=TRAINERS)


def right(seed: int) -> ExhibitOutcome:
    """Give both the same passes over the data and the same step size."""
    return _compared(seed, passes_of_hogwild=1, step=SMALL_STEP)


def _compared(seed: int, passes_of_hogwild: int, step: float = LARGE_STEP) -> ExhibitOutcome:
    """Train both by epoch; the chart is the lead of Hogwild!. (Its trainers take turns here, since only the amount of
    work matters.)
    """
    data = load("digits")
    torch.manual_seed(seed)
    server, hogwild = _net(), _net()
    hogwild.load_state_dict(server.state_dict())
    series, updates = {}, {"server": 0, "hogwild": 0}
    for epoch in range(1, EPOCHS + 1):
        updates["server"] += _pass(server, data, SMALL_STEP, gradients=TRAINERS)
        updates["hogwild"] += sum(_pass(hogwild, data, step, gradients=1) for _ in range(passes_of_hogwild))
        ahead = (
            evaluate(hogwild, data.test_images, data.test_labels).accuracy
            - evaluate(server, data.test_images, data.test_labels).accuracy
        )
        series[epoch] = ahead
    passes = float(passes_of_hogwild * EPOCHS)
    return ExhibitOutcome(
        {
            "ahead": series[EPOCHS],
            "passes": passes,
            "passes_of_server": float(EPOCHS),
            "updates_ratio": updates["hogwild"] / updates["server"],
        },
        series,
    )


def _pass(net: nn.Module, data: ImageSet, step: float, gradients: int) -> int:
    """Make one pass over the data, averaging `gradients` gradients per update; return the number of updates."""
    optimizer = torch.optim.SGD(net.parameters(), lr=step)
    batches = torch.split(torch.randperm(data.size), BATCH)
    for number in range(0, len(batches), gradients):
        optimizer.zero_grad()
        group = batches[number : number + gradients]
        for chosen in group:
            (nll_loss(net(data.train_images[chosen]), data.train_labels[chosen]) / len(group)).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return -(-len(batches) // gradients)


def _net() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 10), nn.LogSoftmax(1))


def invariant(outcome: ExhibitOutcome) -> None:
    """Both make the same number of passes over the data."""
    ours, theirs = outcome.numbers["passes"], outcome.numbers["passes_of_server"]
    if ours != theirs:
        raise Broken(
            f"Compared methods must make the same number of passes over the data; got {ours:.0f} and {theirs:.0f}."
        )
