"""Unequal epochs: a fault of hogwild.

source: The blog series on parallel SGD: Hogwild! at 98.98 % compared with the parameter server at 96.96 %
wrong: Both run for the same number of epochs. But the server's trainers share one pass over the data per epoch, and
    Hogwild!'s trainers make one each; its effective step is twice as large, and it updates on every gradient instead of
    every fourth.
right: Both are compared after the same number of passes, with one step size. The remaining difference is due to the
    update frequency.
seen: Lead of Hogwild! over the server after each epoch, on the bundled digits with a linear model: with equal passes
    and steps the lead shrinks, and the rest comes from more frequent updates.
chart: Lead of Hogwild! (points of test accuracy) against Epoch
values: ahead = Lead after the last epoch (points); passes = Passes of Hogwild! (passes); passes_of_server = Passes of
    the server (passes); updates_ratio = Updates, relative to the server's
rule: passes = passes_of_server
broken: Compared methods must make the same number of passes over the data; got {passes:.0f} and {passes_of_server:.0f}.
guard: tests/experiments/test_invariants.py::test_passes_count_the_samples_of_all_trainers
"""

import torch
from torch import nn
from torch.nn.functional import nll_loss

from engine.data.nets import evaluate
from engine.data.sets import ImageSet, load
from engine.museum.exhibit import Outcome, Version

TRAINERS, EPOCHS, BATCH = 4, 6, 64
SMALL_STEP, LARGE_STEP = 0.01, 0.02
"""Step sizes at a ratio of 1 to 2, like lr/(1 - momentum) in the two publications."""


def wrong(hogwild: nn.Module, data: ImageSet) -> int:
    return sum(_pass(hogwild, data, LARGE_STEP, gradients=1) for _ in range(TRAINERS))


def right(hogwild: nn.Module, data: ImageSet) -> int:
    return _pass(hogwild, data, SMALL_STEP, gradients=1)


def measure(seed: int, epoch: Version) -> Outcome:
    """Train both by epoch; the chart is the lead of Hogwild!. Its trainers take turns: only the work matters here."""
    data, series, updates, of_server = load("digits"), {}, 0, 0
    torch.manual_seed(seed)
    server, hogwild = (nn.Sequential(nn.Flatten(), nn.Linear(784, 10), nn.LogSoftmax(1)) for _ in range(2))
    hogwild.load_state_dict(server.state_dict())
    for number in range(1, EPOCHS + 1):
        of_server += _pass(server, data, SMALL_STEP, gradients=TRAINERS)
        updates += epoch(hogwild, data)
        ours, theirs = (evaluate(net, data.test_images, data.test_labels).accuracy for net in (hogwild, server))
        series[number] = ours - theirs
    passes = {"passes": updates / -(-data.size // BATCH), "passes_of_server": EPOCHS}
    return Outcome({"ahead": series[EPOCHS], **passes, "updates_ratio": updates / of_server}, series)


def _pass(net: nn.Module, data: ImageSet, step: float, gradients: int) -> int:
    """Make one pass over the data, averaging `gradients` gradients per update; return the number of updates."""
    optimizer = torch.optim.SGD(net.parameters(), lr=step)
    batches = torch.split(torch.randperm(data.size), BATCH)
    for first in range(0, len(batches), gradients):
        group = batches[first : first + gradients]
        optimizer.zero_grad()
        for chosen in group:
            (nll_loss(net(data.train_images[chosen]), data.train_labels[chosen]) / len(group)).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return -(-len(batches) // gradients)
