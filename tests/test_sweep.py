"""Sweeps from what a person writes to the queue: values, combinations, their order, and the sentences for what is
wrong.
"""

from typing import Any

import pytest

from engine.config_values import MOST_RUNS, read_values, usual_values
from engine.duel.launch import DuelLaunch, launch_duel
from engine.errors import ConfigError, DeviceError, NoSuchSweep, UnknownName
from engine.experiments.hogwild.config import HogwildConfig
from engine.experiments.pipeline.config import PipelineConfig
from engine.home import Home
from engine.launch import launch, retry
from engine.registry import EXPERIMENTS, experiment
from engine.store import Launch, Reader, Store, SweepLaunch
from engine.store.launches import Draw
from engine.sweep.extend import extend_sweep
from engine.sweep.launch import launch_sweep
from engine.sweep.plan import plan
from engine.sweep.random_search import Range, read_range, usual_range
from tests.labs.duel import duel_of


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
        ("splits", " , ", "splits needs at least one value to sweep, such as 1, 2, 4, 8."),
        ("splits", "8..1", "splits: a range must be ascending, such as 1..8; got '8..1'."),
        ("splits", "1..1000000000", "splits: a range can have at most 500 values"),
        ("splits", "none", "splits must be a whole number"),
        ("mode", "gpip", "mode must be one of 'gpipe'"),
        ("learning_rate", "inf", "learning_rate must be a finite number"),
        ("split", "1", "Did you mean 'splits'?"),
    ],
)
def test_what_is_wrong_with_a_value_is_a_sentence_that_names_field_value_and_rule(
    field: str, text: str, sentence: str
) -> None:
    with pytest.raises(ConfigError) as error:
        read_values(PipelineConfig, field, text)
    assert sentence in str(error.value)
    assert {problem.field for problem in error.value.problems} == {field}


def test_combinations_that_break_rules_are_named_counted_and_said_once() -> None:
    with pytest.raises(ConfigError) as error:
        plan(
            SweepLaunch(
                Launch("pipeline", {"batch_size": 32}), {"splits": [1, 3, 64], "mode": ["gpipe", "torch_pipelining"]}
            )
        )
    first, second, third = error.value.problems
    assert first.sentence.startswith("With splits 3, mode torch_pipelining: splits must divide batch_size (32)")
    assert second.sentence.startswith("With splits 64, mode gpipe: splits must be at most batch_size (32), got 64")
    assert third.sentence.startswith("With splits 64, mode torch_pipelining: splits must be at most")
    with pytest.raises(ConfigError) as error:
        plan(SweepLaunch(Launch("pipeline", {"batch_size": 4}), {"splits": range(1, 11)}))
    assert [problem.sentence[:14] for problem in error.value.problems] == [
        "With splits 5:",
        "With splits 6:",
        "With splits 7:",
        "3 more of the ",
    ]
    with pytest.raises(ConfigError) as error:
        plan(SweepLaunch(Launch("hogwild", {"learning_rate": 99}), {"trainers": [1, 2]}))
    assert str(error.value) == "learning_rate must be at most 10.0, got 99."
    planned = plan(SweepLaunch(Launch("pipeline", {"splits": 9999}), {"splits": [1, 2]}))
    assert [cell.config.splits for cell in planned.cells] == [1, 2]  # type: ignore[attr-defined]
    with pytest.raises(ConfigError) as error:
        read_values(PipelineConfig, "splits", "0, x, 2, 2")
    assert len(error.value.problems) == 3


@pytest.mark.parametrize(
    ("grid", "seeds", "sentence"),
    [
        ({}, 1, "A sweep must vary a setting or have more than one seed, got neither."),
        (
            {"splits": [1], "mode": ["gpipe"], "batches": [1]},
            1,
            "A sweep must vary at most 2 settings, got 3: splits, mode, batches. Leave out 1 of them.",
        ),
        ({"seed": [1, 2]}, 1, "seed can't be a varied field"),
        (
            {"splits": range(1, 11)},
            51,
            "A sweep may have at most 500 runs, got 10 x 51 = 510. Give fewer values or seeds.",
        ),
        ({"splits": [1]}, 0, "seeds must be at least 1, got 0."),
        ({"splits": [1]}, 2, "seed must be at most 2147483647"),
    ],
)
def test_a_grid_that_can_not_be_is_a_sentence(grid: dict[str, Any], seeds: int, sentence: str) -> None:
    with pytest.raises(ConfigError, match=r".") as error:
        plan(SweepLaunch(Launch("pipeline", {"seed": 2**31 - 1, "batch_size": 64}), grid, seeds))
    assert sentence in str(error.value)


def test_as_many_runs_as_allowed_are_planned_seeds_outermost() -> None:
    planned = plan(SweepLaunch(Launch("pipeline", {"seed": "5"}), {"splits": ["1", "2"], "mode": ["gpipe", "1f1b"]}, 2))
    assert [(cell.config.seed, cell.config.splits, cell.config.mode) for cell in planned.cells] == [  # type: ignore[attr-defined]
        *((5, 1, "gpipe"), (5, 1, "1f1b"), (5, 2, "gpipe"), (5, 2, "1f1b")),
        *((6, 1, "gpipe"), (6, 1, "1f1b"), (6, 2, "gpipe"), (6, 2, "1f1b")),
    ]
    assert planned.grid == {"splits": (1, 2), "mode": ("gpipe", "1f1b"), "seed": (5, 6)}
    assert planned.cells[3].values == {"splits": 2, "mode": "1f1b", "seed": 5}
    assert (
        len(plan(SweepLaunch(Launch("pipeline", {"batch_size": 64}), {"splits": range(1, 51)}, 10)).cells) == MOST_RUNS
    )


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_usual_values_of_every_field_are_values_that_a_sweep_takes(name: str) -> None:
    found = experiment(name)
    base = found.configure("quick").model_dump()
    for field in set(found.config.model_fields) - {"seed"}:
        if text := usual_values(found.config, field, base):
            assert plan(SweepLaunch(Launch(name, base), {field: read_values(found.config, field, text)})).cells
    assert len(usual_values(found.config, found.axis, base).split(",")) >= 2


def test_a_launch_queues_every_run_with_its_own_demand_and_name(home: Home) -> None:
    base = experiment("hogwild").preset("quick").settings
    sweep_id = launch_sweep(
        home, SweepLaunch(Launch("hogwild", base, " Ada ", "quick", " speed "), {"trainers": ["1", 2]}, 2)
    )
    with Reader.open(home) as reader:
        sweep, runs = reader.sweeps.one(sweep_id), [reader.runs.one(run.id) for run in reader.sweeps.runs(sweep_id)]
    assert (sweep.name, sweep.owner, sweep.grid) == ("speed", "Ada", {"trainers": (1, 2), "seed": (0, 1)})
    assert [(run.config["trainers"], run.config["seed"], run.demand.ranks, run.preset) for run in runs] == [
        *((1, 0, 1, "quick"), (2, 0, 2, "quick")),
        *((1, 1, 1, "quick"), (2, 1, 2, "quick")),
    ]
    assert runs[0].name == "speed: trainers 1, seed 0"
    assert {run.config["dataset"] for run in runs} == {"digits"}
    HogwildConfig.check(runs[0].config)


def test_a_run_of_a_sweep_is_named_by_titles_as_groups_are(home: Home) -> None:
    launch_sweep(home, SweepLaunch(Launch("hogwild", {}, "Ada", name="speed"), {"learning_rate": [0.002]}, 1))
    with Reader.open(home) as reader:
        assert [run.name for run in reader.sweeps.runs(1)] == ["speed: learning rate 0.002, seed 0"]


def test_a_preset_with_changed_settings_is_not_recorded(home: Home) -> None:
    found = experiment("hogwild")
    for changes, preset in (({}, "quick"), ({"learning_rate": 0.02}, None)):
        config = found.configure("quick", changes)
        run_id = launch(home, Launch("hogwild", config.model_dump(mode="json"), "Ada", "quick"))
        base = {**found.preset("quick").settings, **changes}
        sweep_id = launch_sweep(home, SweepLaunch(Launch("hogwild", base, "Ada", "quick"), {"trainers": [1, 2]}, 2))
        with Reader.open(home) as reader:
            assert {run.preset for run in [reader.runs.one(run_id), *reader.sweeps.runs(sweep_id)]} == {preset}


def test_a_name_that_is_too_long_is_refused_and_one_that_is_long_is_kept_whole(home: Home) -> None:
    settings = experiment("hogwild").preset("quick").settings
    config, longest = experiment("hogwild").config.check(settings), "x" * 199 + "y"
    sentence = "name must have at most 200 characters; got 201. Shorten it."
    for order in (
        lambda name: launch(home, Launch("hogwild", config.model_dump(mode="json"), "Ada", name=name)),
        lambda name: launch_sweep(
            home, SweepLaunch(Launch("hogwild", settings, "Ada", name=name), {"trainers": [1, 2]}, 1)
        ),
        lambda name: launch_duel(home, DuelLaunch(duel_of("hogwild", "sync_sgd"), owner="Ada", name=name)),
    ):
        with pytest.raises(ConfigError) as told:
            order(longest + "z")
        assert str(told.value) == sentence
        order(f" {longest} ")
    with Reader.open(home) as reader:
        runs = [run.name for run in reader.runs.find(experiment="hogwild", owner="Ada") if run.name.startswith("x")]
        assert {reader.sweeps.one(1).name, reader.duels.one(1).name, runs[-1]} == {longest}
        of_sweep = [run.name for run in reader.sweeps.runs(1)]
    assert [name.partition("…: ")[2] for name in of_sweep] == ["trainers 1, seed 0", "trainers 2, seed 0"], (
        "the cut shows"
    )
    assert {len(name) for name in of_sweep} == {200}


def test_long_owners_are_refused_and_long_names_kept(home: Home) -> None:
    with pytest.raises(ConfigError, match="owner must have at most 60 characters; got 61"):
        launch(home, Launch("hogwild", experiment("hogwild").configure("quick").model_dump(mode="json"), "a" * 61))
    run_id = launch(home, Launch("hogwild", experiment("hogwild").configure("quick").model_dump(mode="json"), "Ada"))
    with Store.open(home) as store:
        store.annotations.rename(run_id, "x" * 200, by="Ada")
        store.runs.cancel(run_id, by="Ada")
    again = retry(home, run_id, owner="Ada")
    with Reader.open(home) as reader:
        assert reader.runs.one(again).name == "x" * 200


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
            launch_sweep(
                home, SweepLaunch(Launch(case["name"], {}, case.get("owner", "Ada"), case.get("preset")), case["grid"])
            )
    with Reader.open(home) as reader:
        assert (reader.runs.count(), reader.sweeps.count()) == (0, 0)


def launched(home: Home) -> int:
    settings = dict(experiment("hogwild").preset("quick").settings) | {"epochs": 3}
    return launch_sweep(
        home, SweepLaunch(Launch("hogwild", settings, "Ada", name="speed"), {"trainers": [1, 2], "lock": [False, True]})
    )


def cells(home: Home, sweep_id: int) -> list[tuple[Any, ...]]:
    with Reader.open(home) as reader:
        return [
            (run.config["trainers"], run.config["lock"], run.config["seed"]) for run in reader.sweeps.runs(sweep_id)
        ]


def test_more_values_and_more_seeds_are_new_cells_with_the_old_settings(home: Home) -> None:
    sweep_id = launched(home)
    assert extend_sweep(home, sweep_id, {"trainers": [4]}, owner="Grace") == [5, 6]
    assert cells(home, sweep_id)[4:] == [(4, False, 0), (4, True, 0)]
    assert len(extend_sweep(home, sweep_id, {}, seeds=1, owner="Grace")) == 6
    assert {seed for *_, seed in cells(home, sweep_id)[6:]} == {1}
    with Reader.open(home) as reader:
        sweep, last = reader.sweeps.one(sweep_id), reader.sweeps.runs(sweep_id)[-1]
    assert sweep.grid == {"trainers": (1, 2, 4), "lock": (False, True), "seed": (0, 1)}
    assert (last.config["epochs"], last.name, last.owner) == (3, "speed: trainers 4, lock true, seed 1", "Grace")


@pytest.mark.parametrize(
    ("more", "counts", "sentence"),
    [
        ({}, {}, "Nothing to add"),
        ({"epochs": [4]}, {}, "does not vary epochs; it varies trainers and lock."),
        ({"trainers": [2]}, {}, "trainers has the value 2 twice."),
        ({"trainers": [99]}, {}, "trainers must be at most 64"),
        ({}, {"draws": 2}, "is a grid search: add values or seeds instead of draws."),
        ({}, {"seeds": -1}, "seeds must be at least 0, got -1."),
        ({}, {"seeds": 200}, "A sweep may have at most 500 runs"),
    ],
)
def test_what_can_not_be_added_is_a_sentence_and_queues_nothing(
    home: Home, more: dict[str, Any], counts: dict[str, int], sentence: str
) -> None:
    sweep_id = launched(home)
    with pytest.raises(ConfigError) as error:
        extend_sweep(home, sweep_id, more, **counts, owner="Ada")
    assert sentence in str(error.value)
    assert len(cells(home, sweep_id)) == 4


def drawn(count: int, seed: int = 0, base: dict[str, Any] | None = None, **over: str) -> list[dict[str, Any]]:
    planned = plan(SweepLaunch(Launch("pipeline", base or {"batch_size": 64}), {}, draw=Draw(count, seed, over)))
    return [{field: cell.values[field] for field in over} for cell in planned.cells]


@pytest.mark.parametrize(
    ("field", "text", "found"),
    [
        ("learning_rate", "0.001..0.1", Range(0.001, 0.1, False, False)),
        ("learning_rate", " log:1e-3 .. .1", Range(0.001, 0.1, True, False)),
        ("splits", "1..16", Range(1, 16, False, True)),
        ("splits", "log:1..64", Range(1, 64, True, True)),
        ("splits", "1, 2, 4", None),
        ("splits", "1..3, 8", None),
        ("mode", "gpipe, 1f1b", None),
        ("cut", "1..2", None),
    ],
)
def test_a_range_is_told_from_a_list(field: str, text: str, found: Range | None) -> None:
    assert read_range(PipelineConfig, field, text) == found


@pytest.mark.parametrize(
    ("over", "sentence"),
    [
        ({"splits": "8..1"}, "splits: a range must be ascending, such as 1..8; got '8..1'."),
        ({"splits": "0..4"}, "splits must be at least 1 (allowed: 1 to 10000), got '0'."),
        ({"splits": "1.5..4"}, "splits must be a whole number"),
        ({"mode": "log:gpipe"}, "mode: a log range needs a numeric field and the form mode=log:0.001..0.1"),
        ({"momentum": "log:0..0.9"}, "momentum: a log range must start above 0, got 'log:0..0.9'."),
        ({"seed": "1..9"}, "seed can't be a varied field"),
        ({"split": "1..9"}, "Did you mean 'splits'?"),
        ({}, "A random draw must vary 1 to 6 fields, got none."),
    ],
)
def test_what_is_wrong_with_a_range_is_a_sentence(over: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError) as error:
        plan(SweepLaunch(Launch("pipeline", {"batch_size": 64}), {}, draw=Draw(3, 0, over)))
    assert sentence in str(error.value)


def test_draws_repeat_spread_differ_and_have_a_size() -> None:
    over = {"learning_rate": "log:0.001..0.1", "mode": "gpipe, 1f1b"}
    assert drawn(5, **over) == drawn(9, **over)[:5]
    assert drawn(5, **over) != drawn(5, seed=1, **over)
    rates = [each["learning_rate"] for each in drawn(200, learning_rate="log:0.001..0.1")]
    assert min(rates) >= 0.001 and max(rates) <= 0.1
    assert 70 < sum(rate < 0.01 for rate in rates) < 130, "half of the factors lie below the geometric middle"
    assert all(rate == float(f"{rate:.3g}") for rate in rates)
    assert {each["splits"] for each in drawn(6, splits="1..6")} == {1, 2, 3, 4, 5, 6}
    found = drawn(8, base={"batch_size": 8}, splits="1..64")
    assert sorted(each["splits"] for each in found) == [1, 2, 3, 4, 5, 6, 7, 8]
    with pytest.raises(ConfigError, match="Can't draw 9 combinations: only 8 different combinations are valid"):
        drawn(9, base={"batch_size": 8}, splits="1..64")
    with pytest.raises(ConfigError, match="splits must be at most batch_size"):
        drawn(1, base={"batch_size": 8}, splits="60..64")
    with pytest.raises(ConfigError, match="at most 500 runs, got 300 x 2 = 600"):
        plan(SweepLaunch(Launch("pipeline", {}), {}, 2, draw=Draw(300, 0, {"learning_rate": "0.001..0.1"})))


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_usual_range_of_every_number_can_be_drawn_from(name: str) -> None:
    found = experiment(name)
    base = found.configure("quick").model_dump()
    for field in set(found.config.model_fields) - {"seed"}:
        if text := usual_range(found.config, field, base[field]):
            assert read_range(found.config, field, text), (field, text)
    assert usual_range(found.config, "learning_rate", 0.01).startswith("log:")


def test_a_drawn_or_missing_sweep_is_told_and_takes_more(home: Home) -> None:
    draw = Draw(4, 3, {"learning_rate": "log:0.001..0.1"})
    sweep_id = launch_sweep(
        home, SweepLaunch(Launch("hogwild", experiment("hogwild").preset("quick").settings, "Ada"), {}, 2, draw=draw)
    )
    assert extend_sweep(home, sweep_id, {}, draws=2, owner="Ada") == [9, 10, 11, 12]
    with Reader.open(home) as reader:
        sweep, runs = reader.sweeps.one(sweep_id), reader.sweeps.runs(sweep_id)
    assert sweep.draw == Draw(6, 3, {"learning_rate": "log:0.001..0.1"})
    rates = [run.config["learning_rate"] for run in runs]
    assert rates[:4] == rates[4:8]
    assert (rates[8:10], len(set(rates))) == (rates[10:12], 6)
    assert sweep.grid["learning_rate"] == tuple(sorted(set(rates)))
    HogwildConfig.check(runs[-1].config)
    with pytest.raises(ConfigError, match="is a random search: add draws or seeds instead of values"):
        extend_sweep(home, sweep_id, {"learning_rate": [0.5]}, owner="Ada")
    with pytest.raises(NoSuchSweep):
        extend_sweep(home, 7, {}, seeds=1, owner="Ada")
