"""A test that runs before the average: it tests the global weights of the previous round."""

from collections.abc import Callable

import torch
from torch import nn
from torch.nn.functional import nll_loss
from torch.nn.utils import parameters_to_vector

from engine.data.nets import evaluate
from engine.data.sets.images import ImageSet
from engine.data.sets.registry import load
from engine.museum.outcome import Broken, ExhibitOutcome

TRAINERS, ROUNDS, STEPS, BATCH = 4, 8, 2, 64


def wrong(seed: int) -> ExhibitOutcome:
    """Test, then average."""

    def end(test: Callable[[], None], average: Callable[[], None]) -> None:
        test()
        average()

    return _rounds(seed, end)


def right(seed: int) -> ExhibitOutcome:
    """Average, then test the weights that are kept."""

    def end(test: Callable[[], None], average: Callable[[], None]) -> None:
        average()
        test()

    return _rounds(seed, end)


def _rounds(seed: int, end_of_round: Callable[[Callable[[], None], Callable[[], None]], None]) -> ExhibitOutcome:
    data = load("digits")
    torch.manual_seed(seed)
    center, trainers = _net(), [_net() for _ in range(TRAINERS)]
    series: dict[int, float] = {}
    tested = torch.empty(0)

    def test() -> None:
        nonlocal tested
        tested = parameters_to_vector(center.parameters()).detach().clone()
        series[len(series) + 1] = evaluate(center, data.test_images, data.test_labels).accuracy

    def average() -> None:
        for theirs, *others in zip(center.parameters(), *(trainer.parameters() for trainer in trainers), strict=True):
            theirs.data.copy_(torch.stack([other.detach() for other in others]).mean(0))

    for _ in range(ROUNDS):
        for place, trainer in enumerate(trainers):
            trainer.load_state_dict(center.state_dict())
            _train(trainer, data, place)
        end_of_round(test, average)
    kept = evaluate(center, data.test_images, data.test_labels).accuracy
    apart = float((parameters_to_vector(center.parameters()).detach() - tested).norm())
    return ExhibitOutcome({"reported": series[ROUNDS], "kept": kept, "apart": apart}, series)


def _train(net: nn.Module, data: ImageSet, place: int) -> None:
    """Take a few steps on this trainer's quarter of the data."""
    part = data.size // TRAINERS
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(STEPS):
        chosen = place * part + torch.randint(part, (BATCH,))
        optimizer.zero_grad()
        nll_loss(net(data.train_images[chosen]), data.train_labels[chosen]).backward()  # type: ignore[no-untyped-call]
        optimizer.step()


def _net() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 10), nn.LogSoftmax(1))


def invariant(outcome: ExhibitOutcome) -> None:
    """The reported score belongs to the weights that are kept."""
    reported, kept, apart = (outcome.numbers[key] for key in ("reported", "kept", "apart"))
    if apart:
        raise Broken(
            f"The tested weights must be the kept ones; their distance is {apart:.2g}, with {reported:.2f} % reported "
            f"and {kept:.2f} % kept. Test after the average."
        )
