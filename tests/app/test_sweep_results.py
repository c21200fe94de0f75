"""The chart and the table of a sweep: lines with their spread, what they are held against, and which numbers there are."""

from typing import Any

import plotly.graph_objects as go
import pytest

from app.sweep_figures import chart
from app.sweep_numbers import EXECUTION, groups_of, metric_choices, rank_groups_of, references
from engine.home import Home
from engine.registry import experiment
from engine.runtime.processes import me
from engine.store import Reader, Store
from engine.sweep import launch_sweep
from tests.app import sweep_labs
from tests.app.test_pages import opened
from tests.app.test_sweeps import STATUSES, html, words


def drawn(home: Home, sweep_id: int, name: str = EXECUTION) -> tuple[go.Figure, list[int], str]:
    """Return the figure of a number with its colours, and the sentence about lines that it lacks."""
    with Reader.open(home) as reader:
        sweep, runs = reader.sweep(sweep_id), reader.sweep_runs(sweep_id)
        lines, lacking = references(sweep, runs, name, reader)
        groups = rank_groups_of(sweep, runs, name, reader) if name.startswith("perf/peak") else groups_of(sweep, runs, name)
        return *chart(groups, name, sweep, "Splits", lines), lacking


def named(figure: go.Figure) -> dict[str, Any]:
    return {trace.name: trace for trace in figure.data if trace.name}


def test_a_line_is_the_mean_over_seeds_with_its_runs_and_their_spread(home: Home) -> None:
    sweep_id, runs = sweep_labs.pipeline(home, {"splits": [4, 2], "mode": ["gpipe", "1f1b"]}, 3)
    for run in reversed(runs):
        sweep_labs.drive(home, run)
    figure, colours, _ = drawn(home, sweep_id)
    assert len(colours) == len(figure.data)
    lines = named(figure)
    assert list(lines) == ["gpipe", "1f1b"]
    for mode, line in lines.items():
        assert list(line.x) == [2, 4], "along the axis, however the grid was written"
        assert list(line.y) == pytest.approx([sweep_labs.execution_time_s(splits, mode, 1) for splits in (2, 4)])
    band, single = figure.data[0], figure.data[1]
    assert max(band.y) == pytest.approx(sweep_labs.execution_time_s(2, "gpipe", 2))
    assert min(band.y) == pytest.approx(sweep_labs.execution_time_s(4, "gpipe", 0))
    assert sorted(single.customdata) == sorted(run.id for run in runs if run.config["mode"] == "gpipe")
    assert colours[: len(colours) // 2] == [0] * (len(colours) // 2)
    assert {line.marker.symbol for line in lines.values()} == {"circle", "square"}


def test_ideal_and_bound_start_from_the_measured_time_of_each_mode(home: Home) -> None:
    sweep_id, runs = sweep_labs.pipeline(home, {"splits": [1, 2, 4], "mode": ["gpipe", "1f1b"]}, 2)
    for run in runs:
        sweep_labs.drive(home, run)
    figure, _, lacking = drawn(home, sweep_id)
    lines = named(figure)
    assert lacking == ""
    for mode, at_4 in (("gpipe", 0.7), ("1f1b", 0.65)):
        start = sweep_labs.ONE_SPLIT_S[mode] + 0.05
        assert list(lines[f"{mode}, ideal"].y) == pytest.approx([start, start * 3 / 4, start * 5 / 8])
        assert list(lines[f"{mode}, bound for these stages"].y) == pytest.approx([start, start * (2 * at_4 - 0.6), start * at_4])
    assert len({lines[name].line.dash for name in ("gpipe", "gpipe, ideal", "gpipe, bound for these stages")}) == 3
    test = opened("sweep", {"sweep": str(sweep_id)})
    assert "Ideal: the work with 1 split" in words(test)
    assert "<td>7.531</td>" in html(test), "the table tells the ideal time too"


def test_no_line_is_drawn_before_its_start_was_measured(home: Home) -> None:
    without, runs = sweep_labs.pipeline(home, {"splits": [2, 4]})
    for run in runs:
        sweep_labs.drive(home, run)
    figure, _, lacking = drawn(home, without)
    assert list(named(figure)) == ["measured"]
    assert lacking == "Ideal and bound start from the execution time measured with splits 1: add splits 1 to a sweep to see them."
    assert lacking in words(opened("sweep", {"sweep": str(without)}))
    half, runs = sweep_labs.pipeline(home, {"splits": [1, 2], "mode": ["gpipe", "1f1b"]})
    for run in runs:
        sweep_labs.drive(home, run, "failed" if run.config["mode"] == "1f1b" else "finished")
    figure, _, lacking = drawn(home, half)
    assert [name for name in named(figure) if "ideal" in name] == ["gpipe, ideal"]
    assert lacking.endswith("they appear once a run with splits 1 has finished.")


def test_the_whole_axis_is_there_from_the_first_point_on(home: Home) -> None:
    sweep_id, runs = sweep_labs.pipeline(home, {"splits": [1, 2, 4, 16], "batches": [10, 20]})
    sweep_labs.drive(home, runs[2])
    figure, _, _ = drawn(home, sweep_id)
    first, last = figure.layout.xaxis.range
    assert (figure.layout.xaxis.type, first < 0.0, 1.2 < last < 1.4) == ("log", True, True)
    assert list(figure.layout.xaxis.ticktext) == ["1", "2", "4", "16"]
    assert list(named(figure)) == ["batches 10"], "a line of numbers says what they are of"


def test_only_finished_runs_count(home: Home) -> None:
    sweep_id, runs = sweep_labs.pipeline(home, {"splits": [1, 2, 4, 8]}, 2)
    for run, status in zip(runs, STATUSES, strict=False):
        sweep_labs.drive(home, run, status)
    with Reader.open(home) as reader:
        groups = groups_of(reader.sweep(sweep_id), reader.sweep_runs(sweep_id), EXECUTION)
    assert [list(group.values) for group in groups] == [[runs[STATUSES.index("finished")].id]]


def test_the_numbers_to_choose_are_those_that_the_runs_have(home: Home) -> None:
    sweep_id, runs = sweep_labs.pipeline(home, {"splits": [1, 2]})
    with Reader.open(home) as reader:
        assert metric_choices(reader.sweep_runs(sweep_id)) == [EXECUTION, "perf/startup_time_s"]
    for run in runs:
        sweep_labs.drive(home, run)
    with Reader.open(home) as reader:
        names = metric_choices(reader.sweep_runs(sweep_id))
    assert names[:2] == [EXECUTION, "test/accuracy"]
    assert {"perf/activations_held", "perf/peak_memory"} < set(names)
    accuracy = named(drawn(home, sweep_id, "test/accuracy")[0])["measured"]
    assert list(accuracy.y) == pytest.approx([95.75, 95.5]), "the last test of each run, not the mean of all"


def test_memory_is_a_line_a_stage(home: Home) -> None:
    sweep_id, runs = sweep_labs.pipeline(home, {"splits": [1, 2]})
    for run in runs:
        sweep_labs.drive(home, run)
    lines = named(drawn(home, sweep_id, "perf/peak_memory")[0])
    assert {name: list(line.y) for name, line in lines.items()} == {"stage1": [190.0, 190.0], "stage2": [220.0, 220.0]}
    test = opened("sweep", {"sweep": str(sweep_id), "number": "Activations held (MB)"})
    assert not test.exception
    assert "<td>stage2</td>" in html(test)


def test_words_and_empty_values_lie_along_an_axis_too(home: Home) -> None:
    settings = experiment("reference").preset("quick").settings
    sweep_id = launch_sweep(home, "reference", settings, {"threads_per_rank": [None, 1], "dataset": ["digits", "synthetic"]}, owner="Ada")
    with Reader.open(home) as reader:
        runs = reader.sweep_runs(sweep_id)
    for run in runs:
        drive_plainly(home, run.id)
    test = opened("sweep", {"sweep": str(sweep_id)})
    assert not test.exception
    assert "threads_per_rank none" in html(test)
    figure, _, _ = drawn(home, sweep_id)
    assert (figure.layout.xaxis.type, list(named(figure)["digits"].x)) == ("category", ["none", "1"])


def drive_plainly(home: Home, run_id: int) -> None:
    with Store.open(home) as store:
        store.claim(run_id, me(), [])
        store.begin(run_id, me(), {})
        store.mark_running(run_id, 0.1)
        store.end(run_id, "finished", "Done.", execution_time_s=1.0 + run_id)
