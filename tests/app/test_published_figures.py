"""Published figures in the console: every one with its results, what is missing, and a launch that says
what it costs.
"""

import re

import pytest
from streamlit.testing.v1 import AppTest

from app.figures import picture
from engine.home import Home
from engine.published import FIGURES, WHOLE, figure
from engine.published.comparison import compare
from engine.store import Reader, Store
from engine.sweep.extend import extend_sweep
from tests.app.reading import all_words, opened
from tests.app.test_disturbance import disturb
from tests.labs import figures


def rows(shown: str) -> list[list[str]]:
    """Return the cells of all table rows, without markup."""
    found = [row.split("</td>")[:-1] for row in shown.split("<tr>")]
    return [[re.sub("<[^>]+>", "", cell) for cell in row] for row in found]


def page(name: str) -> AppTest:
    test = opened("figures", {"figure": name})
    assert not test.exception
    assert not test.error
    return test


def test_every_figure_is_there_before_anything_was_launched(home: Home) -> None:
    test = opened("figures")
    assert not test.exception
    assert [each.value.replace("\\", "") for each in test.header] == [found.title for found in FIGURES]
    assert all_words(test).count("not reproduced here yet: no run with these settings") == len(FIGURES)
    assert "no similar run has finished on this machine" in all_words(test)
    labels = {button.key: button.label for button in test.button}
    assert labels["once.launch-hogwild/reduced"] == "Launch reduced: 5 runs"
    assert labels["once.launch-reinforce/full"] == "Launch full: 100 runs"


def test_a_launch_asks_for_a_name_queues_the_figures_sweep_and_stays_on_its_page(home: Home, reader: Reader) -> None:
    test = page("hogwild")
    test.button(key="once.launch-hogwild/reduced").click().run()
    assert not test.exception
    assert reader.sweeps.count() == 0
    test.session_state["person"] = "Ada"
    test.button(key="once.launch-hogwild/reduced").click().run()
    sweep, runs = reader.sweeps.one(1), reader.sweeps.runs(1)
    assert (sweep.figure, sweep.owner, sweep.total) == ("hogwild/reduced", "Ada", 5)
    assert {(run.config["epochs"], run.config["trainers"], run.preset) for run in runs} == {(2, 4, None)}
    shown = all_words(page("hogwild"))
    assert "in progress, 0 of 5 runs ended" in shown
    assert "98.98" in shown and "the reduced version does different work from the source" in shown
    sweep_id, _ = figures.figure_sweep(home, "hogwild")
    assert '<a href="/figures?figure=hogwild">hogwild</a>, reduced' in all_words(
        opened("sweep", {"sweep": str(sweep_id)})
    )


def test_a_figure_of_times_leaves_disturbed_runs_out_and_says_so(home: Home) -> None:
    _, runs = figures.pipeline(home, lambda splits: 5 + splits / 10)
    assert "disturbed" not in all_words(page("pipeline_as_run"))
    first = next(run for run in runs if run.config["splits"] == 15)
    disturb(home, first.id, 22.0, slower=9.0)
    shown = all_words(page("pipeline_as_run"))
    assert f"1 of {len(runs)} runs disturbed by other programs or the host, and left out: splits 15, seed 0." in shown


def test_a_sweep_that_failed_in_part_says_which_runs_and_the_cure(home: Home) -> None:
    _, runs = figures.figure_sweep(home, "pipeline_as_run")
    for run in runs:
        failed = run.config["splits"] == 30 and run.config["seed"] < 3
        figures.end(home, run, run.config["splits"] / 10 + run.config["seed"] / 100, "failed" if failed else "finished")
    shown = all_words(page("pipeline_as_run"))
    assert (
        "3 of 20 runs did not finish (failed): splits 30, seed 0; splits 30, seed 1; splits 30, seed 2. Use "
        "Retry on the sweep's page."
    ) in shown
    assert ["30", "10.16", "not comparable", "4.035", "–", "–", "2"] in [row[1:8] for row in rows(shown)]


def test_deleted_runs_and_mixed_settings_are_told(home: Home) -> None:
    _, runs = figures.pipeline(home, lambda splits: splits / 10)
    with Store.open(home) as store, store.db.change() as connection:
        connection.execute("DELETE FROM runs WHERE id IN (?, ?)", [runs[0].id, runs[1].id])
    shown = all_words(page("pipeline_as_run"))
    assert "2 of 20 runs missing: splits 15, seed 0; splits 30, seed 0. Launch the figure again." in shown
    with Store.open(home) as store, store.db.change() as connection:
        connection.execute(
            "UPDATE runs SET config = json_set(config, '$.learning_rate', 0.5) WHERE id = ?", [runs[3].id]
        )
    shown = all_words(page("pipeline_as_run"))
    assert "4 not comparable" in shown
    assert f"Learning rate must be 0.05; run {runs[3].id} has 0.5." in shown


def test_times_of_two_machines_are_not_comparable_and_accuracies_are(home: Home, reader: Reader) -> None:
    _, runs = figures.figure_sweep(home, "pipeline_as_run")
    for run in runs:
        figures.end(home, run, 3.0, about=figures.HERE | {"cores": 2 + run.config["seed"]})
    assert f"Its timings come from different machines: {figures.HERE['host']} (2 cores of Xeon)" in all_words(
        page("pipeline_as_run")
    )
    _, runs = figures.figure_sweep(home, "hogwild", "full")
    for run, accuracy in zip(runs, (99.02, 99.0, 98.96, 98.98, 99.01), strict=True):
        points = {4 * place + run.config["seed"] / 10: 98.0 for place in range(1, 10)} | {40.0: accuracy}
        figures.end(home, run, 3.0, about=figures.HERE | {"cores": 2 + run.config["seed"]}, points=points)
    found = compare(reader, figure("hogwild"), reader.sweeps.one(2))
    assert not found.obstacles
    assert [value.result for value in found.values] == ["inside", None], "no run recorded a loss"
    shown = all_words(page("hogwild"))
    assert "1 inside" in shown and "at least 3 seeds required; got 0" in shown
    assert ["40", "98.98", "inside", "98.994"] in [row[1:5] for row in rows(shown)]


def test_a_figure_all_of_whose_runs_failed_has_no_results(home: Home) -> None:
    _, runs = figures.figure_sweep(home, "hogwild")
    for run in runs:
        figures.end(home, run, 3.0, "failed")
    shown = all_words(page("hogwild"))
    assert "no finished runs" in shown and "5 of 5 runs did not finish (failed)" in shown


def test_a_link_to_no_figure_is_a_sentence(home: Home) -> None:
    test = opened("figures", {"figure": "<b>x"})
    assert not test.exception
    assert "No published figure has this name. Choose from: reinforce," in all_words(test)


def test_the_picture_lays_ours_over_the_published_series(home: Home, reader: Reader) -> None:
    sweep_id, _ = figures.pipeline(home, lambda splits: splits / 10)
    found = figure("pipeline_as_run")
    ours = compare(reader, found, reader.sweeps.one(sweep_id))
    drawn, colours = picture(found, ours.readings[WHOLE], WHOLE)
    lines = {trace.name: trace for trace in drawn.data if trace.name}
    assert list(lines) == ["measured", "published, at the actual splits"]
    assert list(lines["measured"].y) == pytest.approx([2.52, 4.02, 7.02, 13.02]), "start-up of 1 s counts"
    published = lines["published, at the actual splits"]
    assert [*zip(published.x, published.y, strict=True)] == [(each.x, each.value) for each in found.published]
    assert len(colours) == len(drawn.data)
    test = page("pipeline_as_run")
    test.toggle(key="execution-pipeline_as_run").set_value(True).run()
    assert "Published times include start-up" in all_words(test)
    assert "<td>1.52</td>" in all_words(test)


def test_what_was_added_to_a_figures_sweep_counts_along_its_axis_and_its_seeds_alone(
    home: Home, reader: Reader
) -> None:
    sweep_id, _ = figures.figure_sweep(home, "hogwild")
    extend_sweep(home, sweep_id, {"trainers": [2]}, 1, owner="Ada")
    runs = reader.sweeps.runs(sweep_id)
    for run in runs:
        figures.end(
            home,
            run,
            3.0,
            points={4.2: 96.0, 8.0: 98.0 + run.config["seed"] / 10 if run.config["trainers"] == 4 else 12.0},
        )
    found = compare(reader, figure("hogwild"), reader.sweeps.one(sweep_id))
    seeds = {run.id: run.config["seed"] for run in runs}
    readings = {(reading.x, seeds[reading.run_id], reading.value) for reading in found.readings["test/accuracy"]}
    assert readings == {(4.0, seed, 96.0) for seed in range(6)} | {(8.0, seed, 98.0 + seed / 10) for seed in range(6)}
    assert not found.missing and not found.obstacles
