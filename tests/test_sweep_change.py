"""A sweep that is extended: what it lacks is queued, in its order, and nothing twice."""

from typing import Any

import pytest

from engine.errors import ConfigError, NoSuchSweep
from engine.home import Home
from engine.registry import experiment
from engine.store import Reader
from engine.sweep import launch_sweep
from engine.sweep_change import extend_sweep


def launched(home: Home) -> int:
    settings = dict(experiment("hogwild").preset("quick").settings) | {"epochs": 3}
    return launch_sweep(home, "hogwild", settings, {"trainers": [1, 2], "lock": [False, True]}, owner="Ada", title="speed")


def cells(home: Home, sweep_id: int) -> list[tuple[Any, ...]]:
    with Reader.open(home) as reader:
        return [(run.config["trainers"], run.config["lock"], run.config["seed"]) for run in reader.sweep_runs(sweep_id)]


def test_more_values_and_more_seeds_are_new_cells_with_the_old_settings(home: Home) -> None:
    sweep_id = launched(home)
    assert extend_sweep(home, sweep_id, {"trainers": [4]}, owner="Grace") == [5, 6]
    assert cells(home, sweep_id)[4:] == [(4, False, 0), (4, True, 0)]
    assert len(extend_sweep(home, sweep_id, {}, seeds=1, owner="Grace")) == 6
    assert {seed for *_, seed in cells(home, sweep_id)[6:]} == {1}
    with Reader.open(home) as reader:
        sweep, last = reader.sweep(sweep_id), reader.sweep_runs(sweep_id)[-1]
    assert sweep.grid == {"trainers": (1, 2, 4), "lock": (False, True), "seed": (0, 1)}
    assert (last.config["epochs"], last.name, last.owner) == (3, "speed: trainers 4, lock true, seed 1", "Grace")


@pytest.mark.parametrize(
    ("more", "counts", "sentence"),
    [
        ({}, {}, "Say what to add"),
        ({"epochs": [4]}, {}, "does not vary epochs; it varies trainers and lock."),
        ({"trainers": [2]}, {}, "trainers has the value 2 twice."),
        ({"trainers": [99]}, {}, "trainers must be at most 64"),
        ({}, {"draws": 2}, "is a grid, so it takes more values and more seeds, but no draws."),
        ({}, {"seeds": -1}, "seeds must be at least 0, got -1."),
        ({}, {"seeds": 200}, "A sweep may have at most 500 runs"),
    ],
)
def test_what_can_not_be_added_is_a_sentence_and_queues_nothing(home: Home, more: dict[str, Any], counts: dict[str, int], sentence: str) -> None:
    sweep_id = launched(home)
    with pytest.raises(ConfigError) as error:
        extend_sweep(home, sweep_id, more, **counts, owner="Ada")
    assert sentence in str(error.value)
    assert len(cells(home, sweep_id)) == 4


def test_a_sweep_that_is_not_there_is_said(home: Home) -> None:
    with pytest.raises(NoSuchSweep):
        extend_sweep(home, 7, {}, seeds=1, owner="Ada")
