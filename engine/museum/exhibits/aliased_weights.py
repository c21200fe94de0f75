"""Trainers that take the global weights by assigning to `.data`, which shares the storage."""

from collections.abc import Callable

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from engine.museum.outcome import Broken, ExhibitOutcome

TRAINERS, ROUNDS, STEPS = 4, 3, 5


def wrong(seed: int) -> ExhibitOutcome:
    """Point each parameter at the global one's storage."""

    def start(mine: nn.Parameter, theirs: nn.Parameter) -> None:
        mine.data = theirs.data

    return _rounds(seed, start)


def right(seed: int) -> ExhibitOutcome:
    """Copy the numbers."""

    def start(mine: nn.Parameter, theirs: nn.Parameter) -> None:
        mine.data.copy_(theirs.data)

    return _rounds(seed, start)


def _rounds(seed: int, start: Callable[[nn.Parameter, nn.Parameter], None]) -> ExhibitOutcome:
    """Train in turns, and record after each local step how far the global weights have moved; only an average may move
    them.
    """
    torch.manual_seed(seed)
    center, trainers = nn.Linear(16, 4), [nn.Linear(16, 4) for _ in range(TRAINERS)]
    images, labels = torch.randn(TRAINERS, 32, 16), torch.randint(4, (TRAINERS, 32))
    series, look, moved = {0: 0.0}, 0, 0.0
    for _ in range(ROUNDS):
        before = center.weight.detach().clone()
        for trainer in trainers:
            for mine, theirs in zip(trainer.parameters(), center.parameters(), strict=True):
                start(mine, theirs)
        for place, trainer in enumerate(trainers):
            optimizer = torch.optim.SGD(trainer.parameters(), lr=0.1)
            for _ in range(STEPS):
                optimizer.zero_grad()
                cross_entropy(trainer(images[place]), labels[place]).backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                look += 1
                series[look] = float((center.weight.detach() - before).norm())
        moved = max(moved, series[look])
        with torch.no_grad():
            for theirs, *others in zip(
                center.parameters(), *(trainer.parameters() for trainer in trainers), strict=True
            ):
                theirs.copy_(torch.stack([other.detach() for other in others]).mean(0))
    storages = {net.weight.untyped_storage().data_ptr() for net in (center, *trainers)}
    return ExhibitOutcome({"storages": float(len(storages)), "moved": moved}, series)


def invariant(outcome: ExhibitOutcome) -> None:
    """Each trainer has its own weights, separate from the global ones."""
    storages = outcome.numbers["storages"]
    if storages != TRAINERS + 1:
        raise Broken(
            f"{TRAINERS} trainers and the global weights must have {TRAINERS + 1} storages; got {storages:.0f}. Shared "
            "storage makes this Hogwild!, and averaging equal weights changes nothing."
        )
