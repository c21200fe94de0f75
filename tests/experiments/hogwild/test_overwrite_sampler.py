"""How many updates others overwrite: exactly 0 alone or under a lock, exact for a known collision, seen between real
processes.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.data.nets import FlatSgd
from engine.experiments.hogwild.config import HogwildConfig
from engine.experiments.hogwild.optimizers import Change, OverwriteSampler, SampledSgd
from engine.registry import method
from tests.doubles import LocalRanks, MemorySink, process_ranks
from tests.experiments import trainer_functions

NET: dict[str, Any] = {"dataset": "digits", "epochs": 2, "batch_size": 100, "learning_rate": 0.05, "momentum": 0.9}
SPARSE: dict[str, Any] = {
    "model": "sparse_logistic",
    "momentum": 0.0,
    "sparse_samples": 300,
    "batch_size": 20,
    "learning_rate": 3.0,
    "epochs": 2,
}


def recorded(**settings: Any) -> list[list[float]]:
    """Return the shares that each trainer of a run recorded."""
    config = HogwildConfig.check(settings)
    ranks = LocalRanks(config.roles, seed=config.seed)
    method("hogwild")(config, ranks)
    return [recorder.values("perf/overwritten_updates") for recorder in ranks.recorders.values()]


@pytest.mark.ranks
@pytest.mark.parametrize("settings", [NET, SPARSE], ids=["net", "sparse"])
def test_one_trainer_overwrites_nothing(settings: dict[str, Any]) -> None:
    assert recorded(**settings, trainers=1, overwrites_every=1) == [[0.0] * 30]


@pytest.mark.ranks
@pytest.mark.parametrize("settings", [NET, SPARSE], ids=["net", "sparse"])
def test_under_a_lock_nothing_is_overwritten(settings: dict[str, Any]) -> None:
    assert recorded(**settings, trainers=2, overwrites_every=1, lock=True) == [[0.0] * 30] * 2


@pytest.mark.ranks
@pytest.mark.parametrize(("every", "looks"), [(0, 0), (7, 4), (30, 1), (31, 0)])
def test_each_kth_step_is_looked_at(every: int, looks: int) -> None:
    assert recorded(**NET, trainers=1, overwrites_every=every) == [[0.0] * looks]


def share(sampler: OverwriteSampler) -> float | None:
    return sampler.metrics().get("perf/overwritten_updates")


def beside(weights: Tensor, own: Change, others: Callable[[Tensor], object], *, after_ours: bool) -> Change:
    """Return a change in whose middle another trainer writes the shared weights."""

    def change(target: Tensor) -> None:
        if target is not weights:
            own(target)
            return
        for each in (own, others) if after_ours else (others, own):
            each(target)

    return change


@pytest.mark.parametrize("after_ours", [True, False])
def test_the_share_is_that_of_the_weights_others_wrote(after_ours: bool) -> None:
    weights = torch.randn(900)  # fewer than are sampled: every one is looked at
    sampler = OverwriteSampler(weights, 1, seed=0)
    sampler.write(
        beside(weights, lambda target: target.add_(0.5), lambda target: target[:270].sub_(0.25), after_ours=after_ours)
    )
    assert share(sampler) == pytest.approx(30)
    assert share(sampler) is None


def test_of_a_sparse_change_only_the_touched_weights_are_looked_at() -> None:
    weights, touched = torch.zeros(5_000), torch.tensor([4, 4, 9, 4_000, 7])
    sampler = OverwriteSampler(weights, 1, seed=0)
    own = torch.ones(5)
    sampler.write(
        beside(
            weights,
            lambda target: target.index_add_(0, touched, own),
            lambda target: target[:8].add_(1),
            after_ours=True,
        ),
        touched,
    )
    assert share(sampler) == 50.0, "4 and 7 of 4, 7, 9 and 4,000"


def test_a_weight_that_is_no_number_was_not_overwritten() -> None:
    weights = torch.full((10,), float("nan"))
    sampler = OverwriteSampler(weights, 1, seed=0)
    sampler.write(lambda target: target.add_(1))
    assert share(sampler) == 0.0


@pytest.mark.parametrize("size", [1, 31, 1_000, 21_840, 100_003])
def test_the_sampled_step_is_the_plain_one_bit_for_bit(size: int) -> None:
    random = torch.Generator().manual_seed(size)
    start, gradient = torch.randn(size, generator=random), torch.randn(size, generator=random)
    plain, watched = start.clone(), start.clone()
    sampler = OverwriteSampler(watched, 1, seed=0)
    one, other = FlatSgd(plain, gradient, 0.03, 0.7), SampledSgd(watched, gradient, 0.03, 0.7, sampler)
    for _ in range(3):
        one.step()
        other.step()
        assert share(sampler) == 0.0
    assert torch.equal(plain, watched)


@pytest.mark.processes
def test_two_processes_that_write_the_same_weights_see_each_other(tmp_path: Path) -> None:
    weights, seen = torch.zeros(200_000).share_memory_(), torch.zeros(2).share_memory_()
    process_ranks(("trainer1", "trainer2"), ("cpu", "cpu"), 1, 0, tmp_path, MemorySink()).run(
        trainer_functions.write_until_overwritten, weights, seen
    )
    assert float(seen.max()) > 0
