"""Every published figure is complete: it can be launched, its rules are about what it measures, its docs say where it
comes from.
"""

from itertools import product
from typing import get_args

import pytest

from engine.errors import UnknownName
from engine.home import ROOT, Home
from engine.published import FIGURES, PASSES, SIZES, Figure, Size, figure
from engine.published.evidence import numbers_of
from engine.published.judgement import cap_of
from engine.published.launch import launch_figure, order_of
from engine.published.rules import Check, Kind, Outcome
from engine.published.value_rules import Near
from engine.published.verdict import Cap, Verdict, verdict
from engine.registry import experiment
from engine.store import Reader

EACH = pytest.mark.parametrize("found", FIGURES, ids=lambda found: found.name)


@EACH
@pytest.mark.parametrize("size", SIZES)
def test_a_figure_is_launched_in_both_sizes_each_with_rules_to_judge(home: Home, found: Figure, size: Size) -> None:
    sweep_id = launch_figure(home, found.name, size, owner="Ada")
    with Reader.open(home) as reader:
        sweep, runs = reader.sweeps.of_figures([found.key(size)])[0], reader.sweeps.runs(sweep_id)
    version = found.versions[size]
    assert (sweep.id, sweep.exclusive, len(sweep.seeds)) == (sweep_id, found.timed, version.seeds)
    assert len(runs) == len(order_of(found, size).plan().cells)
    assert {run.preset for run in runs} == {None if version.changes else version.preset}
    rules = found.judged(size)
    assert [rule for rule in rules if rule.kind == "shape"]
    assert rules[0].kind == "floor" and [rule.kind for rule in rules].count("floor") == 1
    values = [rule for rule in rules if isinstance(rule, Near) and rule.number == found.number]
    assert {(rule.x, rule.value) for rule in values} == {
        point for line in found.published for point in line.points.items()
    }


@EACH
def test_a_figure_says_what_it_is_and_its_docs_name_its_tolerances(found: Figure) -> None:
    assert found.claim.endswith(".") and found.source.endswith(".")
    assert found.axis == PASSES or found.axis in experiment(found.experiment).config.model_fields
    assert not found.versions["full"].reduced
    assert found.versions["reduced"].reduced and all(
        sentence.endswith(".") for sentence in found.versions["reduced"].reduced
    )
    assert found.number in numbers_of(found)
    page = (ROOT / "docs" / "figures.md").read_text()
    assert f"`{found.name}`" in page
    for rule in found.rules:
        if isinstance(rule, Near):
            assert f"{rule.value:g}" in page or f"{rule.value}" in page


def test_an_unknown_figure_gets_a_suggestion_and_a_chosen_set_up_caps_the_verdict() -> None:
    assert figure("hogwild").title.startswith("Hogwild!")
    with pytest.raises(UnknownName, match=r"hogwyld.*hogwild"):
        figure("hogwyld")
    server = figure("parameter_server")
    assert server.chosen.startswith("the batch size of 32") and server.assumed == "4 trainers and a batch size of 32"
    assert (cap_of(server, "full"), cap_of(server, "reduced"), cap_of(figure("hogwild"), "full")) == (
        "set-up assumed",
        "trend only",
        None,
    )
    assert experiment("parameter_server").configure("published").model_dump()["batch_size"] == 32


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
def test_obstacles_then_floors_go_before_shapes_and_values(shape: str, value: str) -> None:
    assert verdict(["learning_rate differs."], checks(shape, value)) == "not comparable"
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
def test_of_several_outcomes_the_first_line_that_applies_decides(
    more: list[tuple[Kind, Outcome]], wanted: Verdict
) -> None:
    assert verdict([], [check("shape", "holds"), check("value", "holds"), *(check(*each) for each in more)]) == wanted
