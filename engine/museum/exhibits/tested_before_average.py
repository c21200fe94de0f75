"""Tested before the average: a fault of sync_sgd.

source: The blog series on parallel SGD: synchronous parallel SGD
wrong: The test runs before the average, so each round reports the accuracy of the previous round's global weights.
    (Where weights share storage, as in the other exhibit, it made no difference; with that fixed, this one shows.)
right: The average comes first: the reported score belongs to the weights that are kept.
seen: The published order lags one round behind, and its first score is that of untrained weights.
chart: Reported test accuracy (%) against Round
values: reported = Last reported accuracy (%); kept = Accuracy of the kept weights (%); apart = Distance of tested to
    kept weights
rule: apart = 0
broken: The tested weights must be the kept ones; their distance is {apart:.2g}, with {reported:.2f} % reported and
    {kept:.2f} % kept. Test after the average.
guard: tests/experiments/sync_sgd/test_sync_sgd.py::test_the_global_weights_are_the_mean_of_all_and_the_same_for_all
"""

from collections.abc import Callable

import torch
from torch import nn
from torch.nn.functional import nll_loss
from torch.nn.utils import parameters_to_vector

from engine.data.nets import evaluate
from engine.data.sets import load
from engine.museum.exhibit import Outcome, Version

TRAINERS, ROUNDS, STEPS, BATCH = 4, 8, 2, 64


def wrong(test: Callable[[], None], average: Callable[[], None]) -> None:
    test()
    average()


def right(test: Callable[[], None], average: Callable[[], None]) -> None:
    average()
    test()


def measure(seed: int, end_round: Version) -> Outcome:
    """Let each trainer take a few steps per round on its quarter of the data; the chart is the reported accuracy."""
    data, tested, series = load("digits"), torch.empty(0), dict[int, float]()
    torch.manual_seed(seed)
    center, *trainers = (nn.Sequential(nn.Flatten(), nn.Linear(784, 10), nn.LogSoftmax(1)) for _ in range(1 + TRAINERS))

    def test() -> None:
        nonlocal tested
        tested = parameters_to_vector(center.parameters()).detach().clone()
        series[len(series) + 1] = evaluate(center, data.test_images, data.test_labels).accuracy

    def average() -> None:
        for theirs, *others in zip(center.parameters(), *(each.parameters() for each in trainers), strict=True):
            theirs.data.copy_(torch.stack([other.data for other in others]).mean(0))

    for _ in range(ROUNDS):
        for trainer, part in zip(trainers, torch.arange(data.size).chunk(TRAINERS), strict=True):
            trainer.load_state_dict(center.state_dict())
            optimizer = torch.optim.SGD(trainer.parameters(), lr=0.01)
            for _ in range(STEPS):
                chosen = part[torch.randint(len(part), (BATCH,))]
                optimizer.zero_grad()
                nll_loss(trainer(data.train_images[chosen]), data.train_labels[chosen]).backward()  # type: ignore[no-untyped-call]
                optimizer.step()
        end_round(test, average)
    kept = evaluate(center, data.test_images, data.test_labels).accuracy
    apart = float((parameters_to_vector(center.parameters()).detach() - tested).norm())
    return Outcome({"reported": series[ROUNDS], "kept": kept, "apart": apart}, series)
