"""Weights that share storage: a fault of sync_sgd.

source: The blog series on parallel SGD: synchronous parallel SGD
wrong: Each worker takes the global weights with `mine.data = theirs.data`. This copies nothing: it shares the storage,
    so every local step also changes the global weights and every other worker's.
right: Trainers copy the values, so steps between two averages stay local.
seen: Distance of the global weights from the start of the round: with shared storage each local step moves them, with
    copies only the average does. The code that ran was Hogwild!, and so are the published numbers.
chart: Change of the global weights within the round against Local step, by trainer
values: storages = Storages of 4 trainers and the global weights (storages); moved = Change before the average
rule: storages = 5
broken: 4 trainers and the global weights must have 5 storages; got {storages:.0f}. Shared storage makes this Hogwild!,
    and averaging equal weights changes nothing.
guard: tests/experiments/sync_sgd/test_sync_sgd.py::test_no_two_of_all_weights_share_memory
"""

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from engine.museum.exhibit import Outcome, Version

TRAINERS, ROUNDS, STEPS = 4, 3, 5


def wrong(mine: nn.Parameter, theirs: nn.Parameter) -> None:
    mine.data = theirs.data


def right(mine: nn.Parameter, theirs: nn.Parameter) -> None:
    mine.data.copy_(theirs.data)


def measure(seed: int, start: Version) -> Outcome:
    """Train in turns; record after each local step how far the global weights have moved, which only an average may."""
    torch.manual_seed(seed)
    center, trainers = nn.Linear(16, 4), [nn.Linear(16, 4) for _ in range(TRAINERS)]
    images, labels = torch.randn(TRAINERS, 32, 16), torch.randint(4, (TRAINERS, 32))
    moved, series = 0.0, {0: 0.0}
    for _ in range(ROUNDS):
        before = center.weight.detach().clone()
        for trainer in trainers:
            for mine, theirs in zip(trainer.parameters(), center.parameters(), strict=True):
                start(mine, theirs)
        for trainer, some, wanted in zip(trainers, images, labels, strict=True):
            optimizer = torch.optim.SGD(trainer.parameters(), lr=0.1)
            for _ in range(STEPS):
                optimizer.zero_grad()
                cross_entropy(trainer(some), wanted).backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                series[len(series)] = float((center.weight.detach() - before).norm())
        moved = max(moved, series[len(series) - 1])
        for theirs, *others in zip(center.parameters(), *(each.parameters() for each in trainers), strict=True):
            theirs.data.copy_(torch.stack([other.data for other in others]).mean(0))
    storages = {net.weight.untyped_storage().data_ptr() for net in (center, *trainers)}
    return Outcome({"storages": len(storages), "moved": moved}, series)
