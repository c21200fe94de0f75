"""Every published figure is complete: it can be launched, its values are about what it measures, its docs say where it
comes from.
"""

import pytest

from engine.errors import UnknownName
from engine.home import ROOT, Home
from engine.published import FIGURES, PASSES, SIZES, Figure, Size, figure
from engine.published.comparison import RESULTS, metrics_of
from engine.registry import experiment
from engine.store import Reader
from engine.sweep.plan import plan
from tests.labs import figures

EACH = pytest.mark.parametrize("found", FIGURES, ids=lambda found: found.name)
PAGE = (ROOT / "docs" / "figures.md").read_text()


@EACH
@pytest.mark.parametrize("size", SIZES)
def test_a_figure_is_launched_in_both_sizes(home: Home, found: Figure, size: Size) -> None:
    sweep_id, runs = figures.figure_sweep(home, found.name, size)
    with Reader.open(home) as reader:
        sweep = reader.sweeps.of_figures([found.key(size)])[0]
    version = found.versions[size]
    assert (sweep.id, sweep.exclusive, len(sweep.seeds)) == (sweep_id, found.timed, version.seeds)
    assert len(runs) == len(plan(found.sweep(size)).cells)
    assert {run.preset for run in runs} == {None if version.changes else "published"}


@EACH
def test_the_full_sweep_measures_each_published_value(found: Figure) -> None:
    assert not (found.published and found.line), "a published value belongs to no line"
    for value in found.published:
        assert value.metric in metrics_of(found)
        if found.axis != PASSES:
            assert value.x in found.versions["full"].grid[found.axis]
        else:
            assert value.x % found.versions["full"].tested_every == 0


@EACH
def test_a_figure_says_what_it_is_and_its_docs_name_its_values(found: Figure) -> None:
    assert found.claim.endswith(".") and found.source.endswith(".")
    assert found.axis == PASSES or found.axis in experiment(found.experiment).config.model_fields
    assert not found.versions["full"].reduced
    assert found.versions["reduced"].reduced
    assert all(sentence.endswith(".") for sentence in found.versions["reduced"].reduced)
    assert f"`{found.name}`" in PAGE
    assert all(f"{each.value:g}" in PAGE for each in found.published)


def test_the_docs_explain_each_result() -> None:
    assert all(f"| `{result}` |" in PAGE for result in RESULTS)


def test_an_unknown_figure_gets_a_suggestion() -> None:
    assert figure("hogwild").title.startswith("Hogwild!")
    with pytest.raises(UnknownName, match=r"hogwyld.*hogwild"):
        figure("hogwyld")


def test_the_server_says_that_its_batch_size_is_assumed_and_chosen_by_its_outcome() -> None:
    server = figure("parameter_server")
    assert server.assumed == "4 trainers and a batch size of 32"
    assert "The batch size of 32 is chosen by its outcome" in server.note
    assert experiment("parameter_server").configure("published").model_dump()["batch_size"] == 32
