"""Hogwild! in real processes: one set of weights for all, every variant, and what quick promises."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.config import Config
from engine.data.nets import bind, flat_weights, mnist_net
from engine.data.sets import load
from engine.data.tensors import shared
from engine.experiments.hogwild.config import HogwildConfig
from engine.metrics import PHASES
from engine.registry import experiment, method
from engine.runtime.worker.ranks import Ranks
from engine.seeding import WEIGHTS, seed_of
from engine.training.step_log import StepLog
from tests.doubles import MemorySink, process_ranks
from tests.experiments import plain_sgd, trainer_functions

pytestmark = pytest.mark.processes
Team = Callable[[Config], tuple[Ranks, MemorySink]]
SHORT: dict[str, Any] = {"dataset": "digits", "epochs": 2, "batch_size": 100, "threads_per_rank": 1, "seed": 3}


@pytest.fixture
def team(tmp_path: Path) -> Team:
    def make(config: Config) -> tuple[Ranks, MemorySink]:
        sink = MemorySink()
        return process_ranks(
            config.roles,
            ("cpu",) * len(config.roles),
            config.threads(),
            config.seed,
            tmp_path,
            sink,
            config.start_method,
        ), sink

    return make


def times_of(ranks: Ranks) -> list[float]:
    """Return for how long each rank was at it, from the moment at which all were ready."""
    assert ranks.execution_time_s is not None
    ends = [member.done_at or 0.0 for member in ranks.members]
    return [ranks.execution_time_s - (max(ends) - end) for end in ends]


def train(config: HogwildConfig, ranks: Ranks) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Return the shared weights as this process sees them at the end, and as each rank saw them."""
    weights = shared(flat_weights(mnist_net(seed_of(config.seed, WEIGHTS))))
    ranks.run(
        trainer_functions.train_and_keep_weights,
        config,
        load(config.dataset),
        weights,
        StepLog.shared_counters(config.trainers),
    )
    return weights, [torch.load(ranks.context.folder / f"{role}.pt") for role in config.roles]


@pytest.mark.parametrize("lock", [False, True], ids=["free", "locked"])
def test_every_process_ends_with_the_same_weights(team: Team, lock: bool) -> None:
    config = HogwildConfig.check(SHORT | {"trainers": 3, "lock": lock})
    ours, theirs = train(config, team(config)[0])
    assert not torch.equal(ours, flat_weights(mnist_net(seed_of(config.seed, WEIGHTS))))
    assert all(torch.equal(ours, weights) for weights in theirs)


def test_one_trainer_in_a_process_of_its_own_is_plain_sgd(team: Team) -> None:
    config = HogwildConfig.check(SHORT | {"trainers": 1, "learning_rate": 0.05, "momentum": 0.9})
    ranks, sink = team(config)
    ours, _ = train(config, ranks)
    losses, weights = plain_sgd.train("digits", seed=3, epochs=2, batch_size=100, learning_rate=0.05, momentum=0.9)
    net = mnist_net(0)
    bind(net, ours)
    assert sink.values("train/loss") == losses
    assert set(sink.values("perf/staleness")) == {0.0}
    assert all(torch.equal(tensor, weights[key]) for key, tensor in net.state_dict().items())


@pytest.mark.parametrize("variant", ["engine", "tutorial"])
def test_a_run_records_what_each_trainer_did(team: Team, variant: str) -> None:
    config = HogwildConfig.check(
        SHORT
        | {
            "trainers": 2,
            "evaluate_every": 1,
            "variant": variant,
            "start_method": "forkserver" if variant == "engine" else "spawn",
        }
    )
    ranks, sink = team(config)
    ranks.context = replace(
        ranks.context, start_method="forkserver"
    )  # spawn is the same, and loads all of torch for each rank
    method("hogwild")(config, ranks)
    assert len(sink.values("test/accuracy")) == 2
    assert sink.progress == (2 * 2 * 1437, 2 * 2 * 1437, "samples")
    for rank in range(2):
        assert len(sink.values("train/loss", rank)) == 2 * 15
        phases = sink.phases()[rank]
        assert {"data", "compute", "update"} <= set(phases) <= set(PHASES)
        assert all(seconds >= -1e-6 for seconds in phases.values())
        assert len(staleness := sink.values("perf/staleness", rank)) == 30
        assert sum(staleness) <= 30, "a trainer's gradients can't have met more updates than the other made"


@pytest.mark.long
def test_quick_reaches_what_it_promises(team: Team) -> None:
    quick = experiment("hogwild").preset("quick")
    ranks, sink = team(experiment("hogwild").configure("quick"))
    method("hogwild")(experiment("hogwild").configure("quick"), ranks)
    assert sink.values("test/accuracy")[-1] >= quick.expects["test/accuracy"]
    assert sink.values("test/accuracy")[0] < sink.values("test/accuracy")[-1]
    both = [sink.values("perf/staleness", rank) for rank in range(2)]
    assert [len(each) for each in both] == [30 * 45] * 2
    assert sum(map(sum, both)) > 0, "each trainer met the other"
    for rank, time_s in enumerate(times_of(ranks)):
        assert sum(sink.phases()[rank].values()) == pytest.approx(time_s, rel=0.02)


@pytest.mark.long
def test_quick_keeps_its_promise_over_ten_seeds(team: Team) -> None:
    for name in ("hogwild", "reference"):
        floor = experiment(name).preset("quick").expects["test/accuracy"]
        for seed in range(10):
            config = experiment(name).configure("quick", {"seed": seed, "evaluate_every": 0})
            ranks, sink = team(config)
            method(name)(config, ranks)
            assert sink.values("test/accuracy")[-1] >= floor, f"{name}, seed {seed}"


@pytest.mark.long
@pytest.mark.usefixtures("mnist")
def test_two_trainers_learn_mnist_in_ten_passes(team: Team) -> None:
    config = experiment("hogwild").configure("tuned")
    ranks, sink = team(config)
    method("hogwild")(config, ranks)
    assert sink.values("test/accuracy")[-1] >= 98.0, "98.7 in a run of November 2026"
