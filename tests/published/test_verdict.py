"""Verdicts follow their truth table, in every branch of it."""

from itertools import product
from typing import get_args

import pytest

from engine.published.rules import Check, Kind, Outcome
from engine.published.verdict import Cap, Verdict, verdict

VALUES: tuple[Outcome, ...] = ("holds", "fails", "undecided", "not judged")
SHAPES: tuple[Outcome, ...] = ("holds", "fails", "undecided")
TABLE: dict[tuple[str, str], Verdict] = {
    ("none", "none"): "not comparable",
    ("none", "holds"): "reproduced",
    ("none", "fails"): "not reproduced",
    ("none", "undecided"): "too few seeds",
    ("none", "not judged"): "not comparable",
    ("holds", "none"): "reproduced",
    ("holds", "holds"): "reproduced",
    ("holds", "fails"): "trend only",
    ("holds", "undecided"): "too few seeds",
    ("holds", "not judged"): "trend only",
    **{("fails", value): "not reproduced" for value in ("none", *VALUES)},
    **{("undecided", value): "too few seeds" for value in ("none", *VALUES)},
}
"""By the worst shape and the worst value, of which `none` says that there is none."""


def check(kind: Kind, outcome: Outcome) -> Check:
    return Check(kind, "a rule", outcome, "numbers")


def checks(shape: str, value: str) -> list[Check]:
    asked: tuple[tuple[Kind, str], ...] = (("shape", shape), ("value", value))
    return [check(kind, outcome) for kind, outcome in asked if outcome != "none"]  # type: ignore[arg-type]


@pytest.mark.parametrize(("shape", "value"), list(product(("none", *SHAPES), ("none", *VALUES))))
def test_one_shape_and_one_value_are_in_the_table(shape: str, value: str) -> None:
    assert verdict([], checks(shape, value)) == TABLE[shape, value]


@pytest.mark.parametrize(("shape", "value"), list(TABLE))
def test_an_obstacle_goes_before_everything(shape: str, value: str) -> None:
    assert verdict(["learning_rate differs."], checks(shape, value)) == "not comparable"


@pytest.mark.parametrize(("shape", "value"), list(TABLE))
def test_a_floor_goes_before_shapes_and_values(shape: str, value: str) -> None:
    if (shape, value) != ("none", "none"):
        assert verdict([], [check("floor", "fails"), *checks(shape, value)]) == "not reproduced"
        assert verdict([], [check("floor", "undecided"), *checks(shape, value)]) == "too few seeds"
    assert verdict([], [check("floor", "holds"), *checks(shape, value)]) == TABLE[shape, value]


@pytest.mark.parametrize("cap", get_args(Cap))
@pytest.mark.parametrize(("shape", "value"), list(TABLE))
def test_a_cap_stands_in_place_of_reproduced_and_of_nothing_else(shape: str, value: str, cap: Cap) -> None:
    plain = TABLE[shape, value]
    assert verdict([], checks(shape, value), cap) == (cap if plain == "reproduced" else plain)


def test_every_verdict_can_be_had() -> None:
    assert {*TABLE.values(), *get_args(Cap)} == set(get_args(Verdict))


@pytest.mark.parametrize(
    ("more", "wanted"),
    [
        ([("shape", "fails"), ("shape", "undecided")], "not reproduced"),
        ([("value", "fails"), ("value", "undecided")], "trend only"),
        ([("value", "fails"), ("value", "not judged")], "trend only"),
        ([("value", "undecided"), ("value", "not judged")], "too few seeds"),
        ([("shape", "undecided"), ("value", "fails")], "too few seeds"),
    ],
)
def test_of_several_outcomes_the_first_line_that_applies_decides(more: list[tuple[Kind, Outcome]], wanted: Verdict) -> None:
    assert verdict([], [check("shape", "holds"), check("value", "holds"), *(check(*each) for each in more)]) == wanted
