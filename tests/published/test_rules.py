"""Rules of published figures: what seeds bear out, what they refute, and what they leave open."""

from collections.abc import Iterable, Mapping

import numpy as np
import pytest

from engine.published.order_rules import Ahead, Crosses, OrderRule, Slower
from engine.published.readings import FigureReading
from engine.published.rules import Outcome
from engine.published.value_rules import Beyond, Near, Plausible

TIME = "perf/execution_time_s"


def readings(
    lines: Mapping[str, Mapping[float, Iterable[float]]], number: str = TIME
) -> dict[str, list[FigureReading]]:
    """Return readings whose run ids count up; seeds are the places of the values."""
    found = [
        (line, x, seed, value)
        for line, points in lines.items()
        for x, values in points.items()
        for seed, value in enumerate(values)
    ]
    return {
        number: [FigureReading(line, x, seed, run_id, value) for run_id, (line, x, seed, value) in enumerate(found, 1)]
    }


@pytest.mark.parametrize(
    ("values", "outcome", "words"),
    [
        ((98.97, 99.0, 99.03), "holds", "99 (98 % CI"),
        ((97.1, 97.12, 97.14), "fails", "outside"),
        ((98.5, 98.9, 99.3), "undecided", "add seeds"),
        ((99.0,), "undecided", "at least 3 seeds required; got 1"),
        ((), "undecided", "got 0"),
    ],
)
def test_a_value_is_near_where_the_whole_interval_is(values: tuple[float, ...], outcome: Outcome, words: str) -> None:
    found = Near("test/accuracy", 40, 98.98, 0.3, "passes").judge(readings({"": {40: values}}, "test/accuracy"))
    assert (found.kind, found.outcome) == ("value", outcome)
    assert words in found.numbers
    assert found.rule == "Test accuracy at 40 passes is 98.98 % within 0.3"


AHEAD = Ahead(TIME, "batched", "per_call", "below", "Batched is faster")


@pytest.mark.parametrize(
    ("batched", "per_call", "outcome"),
    [
        ((1.0, 2.0, 3.0), (1.5, 3.1, 4.4), "holds"),  # unequal seeds, and yet each pair says the same
        ((1.5, 3.1, 4.4), (1.0, 2.0, 3.0), "fails"),
        ((1.0, 2.0, 3.0), (1.5, 1.5, 3.1), "undecided"),
        (
            (0.999, 0.9988, 0.9991),
            (1.0, 1.0, 1.0),
            "fails",
        ),  # a thousandth is less than counts, however well it is measured
        ((0.93, 0.94, 0.935), (1.0, 1.0, 1.0), "undecided"),
        ((0.9, 0.9, 0.9), (1.0, 1.0, 1.0), "holds"),  # equal in all seeds: taken as exact
        ((1.0,), (2.0,), "undecided"),
    ],
)
def test_one_line_is_ahead_seed_by_seed_at_the_largest_common_x(
    batched: tuple[float, ...], per_call: tuple[float, ...], outcome: Outcome
) -> None:
    found = AHEAD.judge(
        readings({"batched": {1: (9, 9, 9), 8: batched, 10: (0, 0, 0)}, "per_call": {1: (1, 1, 1), 8: per_call}})
    )
    assert found.outcome == outcome
    if len(batched) > 1:
        assert "at 8" in found.numbers


@pytest.mark.parametrize(
    ("values", "outcome"),
    [
        ((97.75, 97.8, 97.85), "holds"),
        ((96.1, 96.2, 96.3), "fails"),
        ((97.0, 97.01, 97.02), "fails"),
        ((96.0, 97.0, 98.0), "undecided"),
    ],
)
def test_a_mean_is_beyond_a_value(values: tuple[float, ...], outcome: Outcome) -> None:
    rule = Beyond("test/accuracy", 96.96, "above", "More than the server")
    assert rule.judge(readings({"": {1: (0, 0, 0), 8: values}}, "test/accuracy")).outcome == outcome


PUBLISHED = {120.0: 16.45, 60.0: 12.33, 30.0: 10.16, 15.0: 9.08}


@pytest.mark.parametrize(
    ("means", "outcome"),
    [
        ((8, 6, 5, 4), "holds"),
        ((8, 6, 4, 5), "fails"),
        ((4, 5, 6, 8), "fails"),
        ((5, 5, 5, 5), "fails"),
        ((8, 6, 5, 4.99), "fails"),
    ],
)
def test_an_order_takes_every_pair_that_lies_apart_by_what_counts(means: tuple[float, ...], outcome: Outcome) -> None:
    found = OrderRule(TIME, PUBLISHED, "In order").judge(
        readings({"": {x: (mean, mean * 1.01, mean * 0.99) for x, mean in zip(PUBLISHED, means, strict=True)}})
    )
    assert found.outcome == outcome


def test_an_order_says_nothing_of_values_nearly_equal_with_noise_or_too_few_seeds() -> None:
    rule = OrderRule("test/accuracy", {4.0: 97.34, 8.0: 97.94, 12.0: 97.96}, "It rises")
    swapped = readings({"": {4: (94, 94.1, 94.2), 8: (97.1, 97, 97.2), 12: (96.9, 96.8, 96.7)}}, "test/accuracy")
    assert rule.judge(swapped).outcome == "holds"
    rng, rule = np.random.default_rng(0), OrderRule("test/accuracy", {1.0: 1.0, 2.0: 2.0, 3.0: 3.0}, "It rises")
    said = [
        rule.judge(readings({"": {x: rng.normal(95, 0.3, 3).tolist() for x in (1, 2, 3)}}, "test/accuracy")).outcome
        for _ in range(200)
    ]
    assert said.count("holds") <= 2, "judged by means alone it was 16 to 17 %"
    found = OrderRule(TIME, PUBLISHED, "In order").judge(
        readings({"": {120: (8, 8.1, 8.2), 60: (6, 6.1), 30: (5, 5.1, 5.2)}})
    )
    assert (found.outcome, found.numbers) == (
        "undecided",
        "5 of 6 pairs are undecided: at least 3 seeds required; got 0",
    )


@pytest.mark.parametrize(
    ("values", "outcome"),
    [((97, 96.5, 97.2), "holds"), ((10, 9.8, 10.2), "fails"), ((10.0, 10.0, 10.0), "fails"), ((97,), "undecided")],
)
def test_a_floor_of_plausibility_is_judged_by_an_interval(values: tuple[float, ...], outcome: Outcome) -> None:
    found = Plausible("test/accuracy", "It has learned", 90, x=10).judge(
        readings({"": {1: (0, 0, 0), 10: values}}, "test/accuracy")
    )
    assert (found.kind, found.outcome) == ("floor", outcome)
    if len(values) > 1:
        assert f"above 90 % by {sum(values) / 3 - 90:.4g} points (" in found.numbers, "a difference of percentages"


def test_growth_floors_and_crossings_are_judged_where_points_and_seeds_are_enough() -> None:
    rule = Plausible(TIME, "It did its work", 1, 10)
    assert rule.judge(readings({"a": {1: (2, 3, 4)}, "b": {2: (3, 4, 5)}})).outcome == "holds"
    assert rule.judge(readings({"a": {1: (20, 21, 20.5)}})).outcome == "fails"
    rule = Slower(TIME, "batched", "per_call", "Grows more slowly")
    slow, fast = (
        {1: (1, 1.1, 1.2), 2: (1.1, 1.2, 1.35), 4: (1.3, 1.4, 1.5)},
        {1: (1, 1.1, 1.2), 2: (2, 2.1, 2.2), 4: (4, 4.2, 4.3)},
    )
    assert rule.judge(readings({"batched": slow, "per_call": fast})).outcome == "holds"
    assert rule.judge(readings({"batched": fast, "per_call": slow})).outcome == "fails"
    assert rule.judge(readings({"batched": {1: (1, 1, 1)}, "per_call": {1: (1, 1, 1)}})).outcome == "undecided", (
        "a point has no slope"
    )
    rule = Crosses(TIME, "batched", "per_call", 3, "Faster from 3 on")
    assert rule.judge(readings({"batched": {1: (1, 1, 1)}, "per_call": {1: (2, 2, 2)}})).outcome == "undecided"
    assert rule.judge(readings({"batched": {1: (1,), 2: (1,)}, "per_call": {1: (2,), 2: (2,)}})).outcome == "undecided"
    rule = Ahead(TIME, "", "", "below", "8 splits are faster than 1", 8, 1)
    assert rule.judge(readings({"": {1: (3, 3.1, 3.2), 8: (2, 2.1, 2.15)}})).outcome == "holds"
    assert rule.judge(readings({"": {1: (2, 2.1, 2.2), 8: (3, 3.1, 3.2)}})).outcome == "fails"
    assert rule.judge({}).outcome == "undecided"


@pytest.mark.parametrize(
    ("batched", "outcome"),
    [
        ((3, 2, 2, 2), "holds"),
        ((1, 1, 1, 1), "holds"),
        ((3, 3.5, 4, 4), "fails"),
        ((3, 3.5, 4, 7), "fails"),
        ((3, 3, 3.99, 5.99), "fails"),
    ],
)
def test_lines_cross_by_some_x(batched: tuple[float, ...], outcome: Outcome) -> None:
    per_call = {1: (2,) * 3, 2: (3,) * 3, 4: (4,) * 3, 8: (6,) * 3}
    rule = Crosses(TIME, "batched", "per_call", 3, "Faster from 3 on")
    found = rule.judge(
        readings({"batched": {x: (mean,) * 3 for x, mean in zip(per_call, batched, strict=True)}, "per_call": per_call})
    )
    assert found.outcome == outcome
