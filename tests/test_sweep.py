"""Sweeps from what a person writes to the queue: values, combinations, their order, and the sentences for what is wrong."""

from typing import Any

import pytest

from engine.duel.launching import launch_duel
from engine.errors import ConfigError, DeviceError, UnknownName
from engine.experiments.hogwild.config import HogwildConfig
from engine.experiments.pipeline.config import PipelineConfig
from engine.home import Home
from engine.launch import launch, retry
from engine.registry import EXPERIMENTS, experiment
from engine.store import Reader, Store
from engine.sweep import launch_sweep, plan
from engine.sweep_values import MOST_RUNS, read_values, usual_values
from tests.app.duel_labs import duel_of


@pytest.mark.parametrize(
    ("field", "text", "values"),
    [
        ("splits", "1, 2, 4, 8", (1, 2, 4, 8)),
        ("splits", " 8,1 ,", (8, 1)),
        ("splits", "1..10", tuple(range(1, 11))),
        ("splits", "1 .. 3, 8", (1, 2, 3, 8)),
        ("mode", "gpipe, 1f1b", ("gpipe", "1f1b")),
        ("learning_rate", "0.1, 1e-3, 2", (0.1, 0.001, 2.0)),
        ("threads_per_rank", "none, 1", (None, 1)),
        ("fault", "none, kill", ("none", "kill")),
        ("cut", "3; 2", ("3", "2")),
        ("cut", "1,2; 2,3", ("1,2", "2,3")),
    ],
)
def test_values_are_read_in_the_type_of_their_field(field: str, text: str, values: tuple[Any, ...]) -> None:
    read = read_values(PipelineConfig, field, text)
    assert read == values
    assert [type(value) for value in read] == [type(value) for value in values]


def test_yes_and_no_are_read_too() -> None:
    assert read_values(HogwildConfig, "lock", "false, true") == (False, True)


@pytest.mark.parametrize(
    ("field", "text", "sentence"),
    [
        ("splits", "0, 2", "splits must be at least 1 (allowed: 1 to 10000), got '0'."),
        ("splits", "2, x", "splits must be a whole number (allowed: 1 to 10000), got 'x'."),
        ("splits", "1.5", "splits must be a whole number"),
        ("splits", "2, 2", "splits has the value 2 twice. Give each value once."),
        ("splits", "1..3, 2", "splits has the value 2 twice."),
        ("splits", " , ", "splits needs at least one value to vary over, such as 1, 2, 4, 8."),
        ("splits", "8..1", "splits: a range counts up, such as 1..8, got '8..1'."),
        ("splits", "1..1000000000", "splits: a range may hold at most 500 values"),
        ("splits", "none", "splits must be a whole number"),
        ("mode", "gpip", "mode must be one of 'gpipe'"),
        ("learning_rate", "inf", "learning_rate must be a finite number"),
        ("split", "1", "Did you mean 'splits'?"),
    ],
)
def test_what_is_wrong_with_a_value_is_a_sentence_that_names_field_value_and_rule(field: str, text: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as error:
        read_values(PipelineConfig, field, text)
    assert sentence in str(error.value)
    assert {problem.field for problem in error.value.problems} == {field}


def test_every_wrong_value_has_its_sentence() -> None:
    with pytest.raises(ConfigError) as error:
        read_values(PipelineConfig, "splits", "0, x, 2, 2")
    assert len(error.value.problems) == 3


def test_a_combination_is_checked_by_the_rules_of_one_run_and_named() -> None:
    with pytest.raises(ConfigError) as error:
        plan("pipeline", {"batch_size": 32}, {"splits": [1, 3, 64], "mode": ["gpipe", "torch_pipelining"]})
    first, second, third = error.value.problems
    assert first.sentence.startswith("With splits 3, mode torch_pipelining: splits must divide batch_size (32)")
    assert second.sentence.startswith("With splits 64, mode gpipe: splits must be at most batch_size (32), got 64")
    assert third.sentence.startswith("With splits 64, mode torch_pipelining: splits must be at most")


def test_of_many_broken_combinations_three_are_told_and_the_rest_counted() -> None:
    with pytest.raises(ConfigError) as error:
        plan("pipeline", {"batch_size": 4}, {"splits": range(1, 11)})
    assert [problem.sentence[:14] for problem in error.value.problems] == ["With splits 5:", "With splits 6:", "With splits 7:", "So do 3 more o"]


def test_what_all_combinations_break_alike_is_said_once() -> None:
    with pytest.raises(ConfigError) as error:
        plan("hogwild", {"learning_rate": 99}, {"trainers": [1, 2]})
    assert str(error.value) == "learning_rate must be at most 10.0, got 99."


def test_a_value_that_only_the_base_breaks_is_cured_by_varying_it() -> None:
    planned = plan("pipeline", {"splits": 9999}, {"splits": [1, 2]})
    assert [cell.config.splits for cell in planned.cells] == [1, 2]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("grid", "seeds", "sentence"),
    [
        ({}, 1, "A sweep varies 1 or 2 fields, got none."),
        ({"splits": [1], "mode": ["gpipe"], "batches": [1]}, 1, "A sweep varies 1 or 2 fields, got 3: splits, mode, batches."),
        ({"seed": [1, 2]}, 1, "seed can't be varied as a field"),
        ({"splits": range(1, 11)}, 51, "A sweep may have at most 500 runs, got 10 x 51 = 510. Give fewer values or seeds."),
        ({"splits": [1]}, 0, "seeds must be at least 1, got 0."),
        ({"splits": [1]}, 2, "seed must be at most 2147483647"),
    ],
)
def test_a_grid_that_can_not_be_is_a_sentence(grid: dict[str, Any], seeds: int, sentence: str) -> None:
    with pytest.raises(ConfigError, match=r".") as error:
        plan("pipeline", {"seed": 2**31 - 1, "batch_size": 64}, grid, seeds)
    assert sentence in str(error.value)


def test_seeds_are_outermost_and_what_is_compared_runs_side_by_side() -> None:
    planned = plan("pipeline", {"seed": "5"}, {"splits": ["1", "2"], "mode": ["gpipe", "1f1b"]}, 2)
    assert [(cell.config.seed, cell.config.splits, cell.config.mode) for cell in planned.cells] == [  # type: ignore[attr-defined]
        *((5, 1, "gpipe"), (5, 1, "1f1b"), (5, 2, "gpipe"), (5, 2, "1f1b")),
        *((6, 1, "gpipe"), (6, 1, "1f1b"), (6, 2, "gpipe"), (6, 2, "1f1b")),
    ]
    assert planned.grid == {"splits": (1, 2), "mode": ("gpipe", "1f1b"), "seed": (5, 6)}
    assert planned.cells[3].name == "splits 2, mode 1f1b, seed 5"


def test_as_many_runs_as_are_allowed_are_planned() -> None:
    assert len(plan("pipeline", {"batch_size": 64}, {"splits": range(1, 51)}, 10).cells) == MOST_RUNS


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_usual_values_of_every_field_are_values_that_a_sweep_takes(name: str) -> None:
    found = experiment(name)
    base = found.configure("quick").model_dump()
    for field in set(found.config.model_fields) - {"seed"}:
        if text := usual_values(found.config, field, base):
            assert plan(name, base, {field: read_values(found.config, field, text)}).cells
    assert len(usual_values(found.config, found.axis, base).split(",")) >= 2


def test_a_launch_queues_every_run_with_its_own_demand_and_name(home: Home) -> None:
    base = experiment("hogwild").preset("quick").settings
    sweep_id = launch_sweep(home, "hogwild", base, {"trainers": ["1", 2]}, 2, owner=" Ada ", preset="quick", title=" speed ")
    with Reader.open(home) as reader:
        sweep, runs = reader.sweep(sweep_id), [reader.run(run.id) for run in reader.sweep_runs(sweep_id)]
    assert (sweep.name, sweep.owner, sweep.grid) == ("speed", "Ada", {"trainers": (1, 2), "seed": (0, 1)})
    assert [(run.config["trainers"], run.config["seed"], run.demand.ranks, run.preset) for run in runs] == [
        *((1, 0, 1, "quick"), (2, 0, 2, "quick")),
        *((1, 1, 1, "quick"), (2, 1, 2, "quick")),
    ]
    assert runs[0].name == "speed: trainers 1, seed 0"
    assert {run.config["dataset"] for run in runs} == {"digits"}
    HogwildConfig.check(runs[0].config)


def test_a_name_that_is_too_long_is_refused_and_one_that_is_long_is_kept_whole(home: Home) -> None:
    settings = experiment("hogwild").preset("quick").settings
    config, longest = experiment("hogwild").config.check(settings), "x" * 199 + "y"
    sentence = "name must have at most 200 characters, got 201. Shorten it."
    for order in (
        lambda name: launch(home, "hogwild", config, owner="Ada", title=name),
        lambda name: launch_sweep(home, "hogwild", settings, {"trainers": [1, 2]}, 1, owner="Ada", title=name),
        lambda name: launch_duel(home, duel_of("hogwild", "sync_sgd"), owner="Ada", title=name),
    ):
        with pytest.raises(ConfigError) as told:
            order(longest + "z")
        assert str(told.value) == sentence
        order(f" {longest} ")
    with Reader.open(home) as reader:
        runs = [run.name for run in reader.runs(experiment="hogwild", owner="Ada") if run.name.startswith("x")]
        assert {reader.sweep(1).name, reader.duel(1).name, runs[-1]} == {longest}
        of_sweep = [run.name for run in reader.sweep_runs(1)]
    assert [name.partition("…: ")[2] for name in of_sweep] == ["trainers 1, seed 0", "trainers 2, seed 0"], "the cut shows"
    assert {len(name) for name in of_sweep} == {200}


def test_an_owner_whose_name_is_too_long_is_no_one_elses_shortened(home: Home) -> None:
    with pytest.raises(ConfigError, match="owner must have at most 60 characters, got 61"):
        launch(home, "hogwild", experiment("hogwild").configure("quick"), owner="a" * 61)


def test_a_repeated_run_keeps_a_long_name(home: Home) -> None:
    run_id = launch(home, "hogwild", experiment("hogwild").configure("quick"), owner="Ada")
    with Store.open(home) as store:
        store.rename(run_id, "x" * 200, by="Ada")
        store.request_cancel(run_id, by="Ada")
    again = retry(home, run_id, owner="Ada")
    with Reader.open(home) as reader:
        assert reader.run(again).name == "x" * 200


def test_nothing_is_queued_where_one_run_could_never_run_here(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    cases: list[tuple[type[Exception], dict[str, Any]]] = [
        (DeviceError, {"grid": {"device": ["cpu", "mps"]}, "name": "reference"}),
        (UnknownName, {"grid": {"trainers": [1]}, "name": "hogwyld"}),
        (UnknownName, {"grid": {"trainers": [1]}, "name": "hogwild", "preset": "quik"}),
        (ConfigError, {"grid": {"trainers": [1, 65]}, "name": "hogwild"}),
        (ConfigError, {"grid": {"trainers": [1]}, "name": "hogwild", "owner": "  "}),
    ]
    monkeypatch.setattr("platform.system", lambda: "Linux")
    for kind, case in cases:
        with pytest.raises(kind):
            launch_sweep(home, case["name"], {}, case["grid"], owner=case.get("owner", "Ada"), preset=case.get("preset"))
    with Reader.open(home) as reader:
        assert (reader.count(), reader.count_sweeps()) == (0, 0)
