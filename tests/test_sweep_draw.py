"""Random draws: the same for the same seed, within their ranges, by the rules of one run."""

from typing import Any

import pytest

from engine.errors import ConfigError
from engine.experiments.hogwild.config import HogwildConfig
from engine.experiments.pipeline.config import PipelineConfig
from engine.home import Home
from engine.registry import EXPERIMENTS, experiment
from engine.store import Reader
from engine.sweep import launch_sweep, plan
from engine.sweep_change import extend_sweep
from engine.sweep_draw import Draw, Range, read_range, usual_range


def drawn(count: int, seed: int = 0, base: dict[str, Any] | None = None, **over: str) -> list[dict[str, Any]]:
    planned = plan("pipeline", base or {"batch_size": 64}, {}, draw=Draw(count, seed, over))
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
        ({"splits": "8..1"}, "splits: a range counts up, such as 1..8, got '8..1'."),
        ({"splits": "0..4"}, "splits must be at least 1 (allowed: 1 to 10000), got '0'."),
        ({"splits": "1.5..4"}, "splits must be a whole number"),
        ({"mode": "log:gpipe"}, "mode: a range over factors is written mode=log:0.001..0.1"),
        ({"momentum": "log:0..0.9"}, "momentum: a range over factors starts above 0, got 'log:0..0.9'."),
        ({"seed": "1..9"}, "seed can't be varied as a field"),
        ({"split": "1..9"}, "Did you mean 'splits'?"),
        ({}, "A random draw is over 1 to 6 fields, got none."),
    ],
)
def test_what_is_wrong_with_a_range_is_a_sentence(over: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError) as error:
        plan("pipeline", {"batch_size": 64}, {}, draw=Draw(3, 0, over))
    assert sentence in str(error.value)


def test_the_same_seed_draws_the_same_and_a_longer_draw_begins_with_the_shorter() -> None:
    over = {"learning_rate": "log:0.001..0.1", "mode": "gpipe, 1f1b"}
    assert drawn(5, **over) == drawn(9, **over)[:5]
    assert drawn(5, **over) != drawn(5, seed=1, **over)


def test_values_stay_in_their_range_and_spread_over_it() -> None:
    rates = [each["learning_rate"] for each in drawn(200, learning_rate="log:0.001..0.1")]
    assert min(rates) >= 0.001 and max(rates) <= 0.1
    assert 70 < sum(rate < 0.01 for rate in rates) < 130, "half of the factors lie below the geometric middle"
    assert all(rate == float(f"{rate:.3g}") for rate in rates)
    assert {each["splits"] for each in drawn(6, splits="1..6")} == {1, 2, 3, 4, 5, 6}


def test_combinations_differ_and_those_that_break_a_rule_are_drawn_again() -> None:
    found = drawn(8, base={"batch_size": 8}, splits="1..64")
    assert sorted(each["splits"] for each in found) == [1, 2, 3, 4, 5, 6, 7, 8]
    with pytest.raises(ConfigError, match="9 combinations are to be drawn, but there are only 8 different combinations"):
        drawn(9, base={"batch_size": 8}, splits="1..64")
    with pytest.raises(ConfigError, match="splits must be at most batch_size"):
        drawn(1, base={"batch_size": 8}, splits="60..64")


def test_a_draw_has_a_size_that_a_sweep_may_have() -> None:
    with pytest.raises(ConfigError, match="at most 500 runs, got 300 x 2 = 600"):
        plan("pipeline", {}, {}, 2, draw=Draw(300, 0, {"learning_rate": "0.001..0.1"}))


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_usual_range_of_every_number_can_be_drawn_from(name: str) -> None:
    found = experiment(name)
    base = found.configure("quick").model_dump()
    for field in set(found.config.model_fields) - {"seed"}:
        if text := usual_range(found.config, field, base[field]):
            assert read_range(found.config, field, text), (field, text)
    assert usual_range(found.config, "learning_rate", 0.01).startswith("log:")


def test_a_drawn_sweep_is_kept_with_its_draw_and_takes_more_of_it(home: Home) -> None:
    draw = Draw(4, 3, {"learning_rate": "log:0.001..0.1"})
    sweep_id = launch_sweep(home, "hogwild", experiment("hogwild").preset("quick").settings, {}, 2, owner="Ada", draw=draw)
    assert extend_sweep(home, sweep_id, {}, draws=2, owner="Ada") == [9, 10, 11, 12]
    with Reader.open(home) as reader:
        sweep, runs = reader.sweep(sweep_id), reader.sweep_runs(sweep_id)
    assert sweep.draw == {"count": 6, "seed": 3, "over": {"learning_rate": "log:0.001..0.1"}}
    rates = [run.config["learning_rate"] for run in runs]
    assert rates[:4] == rates[4:8]
    assert (rates[8:10], len(set(rates))) == (rates[10:12], 6)
    assert sweep.grid["learning_rate"] == tuple(sorted(set(rates)))
    HogwildConfig.check(runs[-1].config)
    with pytest.raises(ConfigError, match="was drawn at random, so it takes more draws and more seeds, but no values"):
        extend_sweep(home, sweep_id, {"learning_rate": [0.5]}, owner="Ada")
