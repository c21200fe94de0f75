"""Schedules of the learning rate: update k of n has 1 - k/n of the rate in every experiment that has a schedule, so
that the last update learns too.
"""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.utils import parameters_to_vector
from torch.optim.optimizer import register_optimizer_step_pre_hook

from engine.data.nets import FlatAdam, FlatSgd, mnist_net
from engine.data.sets import read
from engine.experiments.sync_sgd.config import SyncSgdConfig
from engine.registry import experiment, experiments, method
from tests.doubles import LocalRanks
from tests.experiments.servers.test_servers import async_desk, batch_desk
from tests.training.test_tutorial_server import ONES, served

RATE = 0.05
UNEQUAL = {"dataset": "digits", "transport": "shared_memory", "trainers": 2, "batch_size": 359, "evaluate_every": 0}
"""Two parts of 718 and 719 samples: 2 and 3 mini-batches a pass."""
SERVER = UNEQUAL | {"epochs": 2}
SYNC = UNEQUAL | {"rounds": 2, "keep_optimizer": True}
DPPO = {
    "collectors": 2,
    "envs_per_collector": 2,
    "batch_steps": 16,
    "total_steps": 400,
    "epochs": 1,
    "minibatches": 1,
    "max_queue_size": 4,
    "evaluate_every_s": 0,
    "render_every_s": 0,
    "stop_when_solved": False,
}
RUNS: list[tuple[str, dict[str, Any], list[int]]] = [
    ("parameter_server", SERVER | {"batch_update_size": 2}, [6]),
    ("parameter_server", SERVER | {"batch_update_size": 1}, [10]),
    ("async_sgd", SERVER, [10]),
    ("async_sgd", SERVER | {"trainers": 1}, [10]),
    ("sync_sgd", SYNC | {"sync": "weights"}, [4, 6]),
    ("sync_sgd", SYNC | {"sync": "elastic"}, [4, 6]),
    ("sync_sgd", SYNC | {"sync": "diloco", "optimizer": "adamw"}, [4, 6]),
    ("sync_sgd", SYNC | {"sync": "gradients"}, [6, 6]),
    ("dppo", DPPO | {"mode": "bounded_queue"}, [16, 16]),
    ("dppo", DPPO | {"mode": "bounded_lag"}, [7, 7]),
    ("dppo", DPPO | {"mode": "update_locked"}, [13, 13]),
    ("dppo", DPPO | {"mode": "unlocked"}, [13, 13]),
]
"""Experiments, their settings, and the number of updates of each optimizer."""


def line(count: int, rate: float = RATE) -> list[float]:
    return [rate * (1 - number / count) for number in range(count)]


@pytest.fixture
def rates(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[object, list[float]]]:
    """The learning rate of each step of each optimizer, ours and torch's."""
    found: defaultdict[object, list[float]] = defaultdict(list)

    def recorded(plain: Any) -> Any:
        def step(optimizer: Any) -> None:
            found[optimizer].append(optimizer.learning_rate)
            plain(optimizer)

        return step

    for kind in (FlatSgd, FlatAdam):
        monkeypatch.setattr(kind, "step", recorded(kind.step))
    hook = register_optimizer_step_pre_hook(lambda own, *_: found[own].append(own.param_groups[0]["lr"]))
    yield found
    hook.remove()


@pytest.mark.ranks
@pytest.mark.parametrize(("name", "changes", "updates"), RUNS)
def test_update_k_of_n_has_1_minus_k_over_n_of_the_rate(
    name: str, changes: dict[str, Any], updates: list[int], rates: dict[object, list[float]]
) -> None:
    config = experiment(name).config.check(changes | {"schedule": "linear", "learning_rate": RATE})
    method(name)(config, LocalRanks(config.roles))
    assert sorted(rates.values(), key=len) == [line(count) for count in updates]


@pytest.mark.ranks
def test_the_rate_falls_with_the_steps_collected_where_the_number_of_updates_is_unknown(
    rates: dict[object, list[float]],
) -> None:
    config = experiment("dppo").config.check(DPPO | {"mode": "reader_writer", "learning_rate": RATE})
    method("dppo")(config, LocalRanks(config.roles))
    for found in rates.values():
        assert found[0] == RATE and found == sorted(found, reverse=True) and 0 < found[-1] < RATE


def test_each_experiment_with_a_schedule_is_checked() -> None:
    assert {each.name for each in experiments() if "schedule" in each.config.model_fields} == {run[0] for run in RUNS}


@pytest.mark.parametrize("late", ["next_batch", "drop"])
def test_a_server_that_waits_for_the_fastest_counts_gradients_dropped_ones_too(
    tmp_path: Path, late: str, rates: dict[object, list[float]]
) -> None:
    changes = {"trainers": 3, "batch_update_size": 2, "batch_size": 479, "epochs": 2, "late": late}
    asked = batch_desk(tmp_path, **changes, schedule="linear")  # of one mini-batch a pass: 6 gradients
    for step in (1, 2):
        for trainer in (1, 2, 3):
            asked.push(trainer, step, version=asked.server.version if trainer < 3 else 0)
    for trainer in (1, 2, 3):
        asked.leave(trainer)
    counted = {"next_batch": (0, 2, 4), "drop": (0, 3)}[late]
    assert list(rates.values()) == [[0.5 * (1 - done / 6) for done in counted]]


def test_the_line_ends_with_the_gradients_of_those_who_are_left(
    tmp_path: Path, rates: dict[object, list[float]]
) -> None:
    asked = async_desk(tmp_path, trainers=2, batch_size=719, epochs=4, schedule="linear")  # 8 gradients
    asked.push(1, 1)
    asked.push(2, 1)
    asked.leave(2)
    for step in (2, 3, 4):
        asked.push(1, step)
    assert list(rates.values()) == [[0.5 * (1 - done / total) for done, total in enumerate((8, 8, 5, 5, 5))]]


def test_the_tutorial_variants_follow_the_schedule(tmp_path: Path, rates: dict[object, list[float]]) -> None:
    from engine.experiments.sync_sgd import tutorial  # loads torchvision, which takes seconds

    server, _ = served(tmp_path, batch=1, trainers=2, schedule="linear")  # of 4 steps each
    for _ in range(4):
        server.on_gradients(1, ONES)
        server.on_gradients(2, ONES)
    assert rates.pop(server.optimizer) == line(8, 1.0)
    settings = {"dataset": "digits", "batch_size": 64, "trainers": 2, "rounds": 2, "learning_rate": RATE}
    settings |= {"variant": "tutorial", "start_method": "spawn", "schedule": "linear"}
    weights = parameters_to_vector(mnist_net(0).parameters()).detach().clone()
    for number in (1, 2):
        own = (lambda said: None, SyncSgdConfig.check(settings), read("digits"), torch.arange(128))
        tutorial._go_through(*own, weights, 5, number)
    assert [rate for each in rates.values() for rate in each] == line(4)
