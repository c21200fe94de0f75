"""Every published figure is complete: it can be launched, its rules are about what it measures, its docs say where it comes from."""

import pytest

from engine.errors import UnknownName
from engine.home import ROOT, Home
from engine.published import FIGURES, PASSES, SIZES, Figure, Size, figure
from engine.published.evidence import numbers_of
from engine.published.judging import cap_of
from engine.published.launching import launch_figure, order_of
from engine.published.rules import Near
from engine.registry import experiment
from engine.store import Reader

EACH = pytest.mark.parametrize("found", FIGURES, ids=lambda found: found.name)


@EACH
@pytest.mark.parametrize("size", SIZES)
def test_a_figure_can_be_launched_in_both_sizes_and_knows_its_sweep_again(home: Home, found: Figure, size: Size) -> None:
    sweep_id = launch_figure(home, found.name, size, owner="Ada")
    with Reader.open(home) as reader:
        sweep, runs = reader.figure_sweeps([found.key(size)])[0], reader.sweep_runs(sweep_id)
    version = found.versions[size]
    assert (sweep.id, sweep.exclusive, len(sweep.seeds)) == (sweep_id, found.timed, version.seeds)
    assert len(runs) == len(order_of(found, size).plan().cells)
    assert {run.preset for run in runs} == {None if version.changes else version.preset}


@EACH
def test_a_figure_says_what_it_is(found: Figure) -> None:
    assert found.claim.endswith(".") and found.source.endswith(".")
    assert found.axis == PASSES or found.axis in experiment(found.experiment).config.model_fields
    assert not found.versions["full"].reduced
    assert found.versions["reduced"].reduced and all(sentence.endswith(".") for sentence in found.versions["reduced"].reduced)
    assert found.number in numbers_of(found)


@EACH
@pytest.mark.parametrize("size", SIZES)
def test_every_size_has_a_shape_to_judge_and_published_values_are_judged_or_said_not_to_be(found: Figure, size: Size) -> None:
    rules = found.judged(size)
    assert [rule for rule in rules if rule.kind == "shape"]
    assert rules[0].kind == "floor" and [rule.kind for rule in rules].count("floor") == 1
    values = [rule for rule in rules if isinstance(rule, Near) and rule.number == found.number]
    assert {(rule.x, rule.value) for rule in values} == {point for line in found.published for point in line.points.items()}


def test_a_set_up_chosen_by_its_outcome_is_said_and_caps_the_verdict() -> None:
    server = figure("parameter_server")
    assert server.chosen.startswith("the batch of 32") and server.assumed == "4 trainers and a batch of 32"
    assert (cap_of(server, "full"), cap_of(server, "reduced"), cap_of(figure("hogwild"), "full")) == ("set-up assumed", "trend only", None)
    assert experiment("parameter_server").configure("published").model_dump()["batch_size"] == 32


@EACH
def test_the_docs_page_names_every_figure_and_its_tolerances(found: Figure) -> None:
    page = (ROOT / "docs" / "figures.md").read_text()
    assert f"`{found.name}`" in page
    for rule in found.rules:
        if isinstance(rule, Near):
            assert f"{rule.value:g}" in page or f"{rule.value}" in page


def test_an_unknown_figure_gets_a_suggestion() -> None:
    assert figure("hogwild").title.startswith("Hogwild!")
    with pytest.raises(UnknownName, match=r"hogwyld.*hogwild"):
        figure("hogwyld")
