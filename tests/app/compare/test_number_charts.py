"""The pictures of the Compare page: looks that stay, raw lines behind smoothed ones, bands with gaps, bars, axes of
numbers and words.
"""

import json
from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest

from app.charts import curve_charts, number_charts, plotly_figures
from app.charts.curve_charts import GroupLine, compact, outline
from app.charts.curve_data import DrawnCurve
from app.charts.curve_points import smoothed, weight
from app.charts.plotly_figures import look, looks
from app.compare.session_state import short_labels
from engine.analysis.statistics.groups import line
from engine.analysis.statistics.intervals import aligned, member
from engine.filter.tree import metric_written

NAN = np.nan


def curve(run_id: int, size: int, rank: int | None = None) -> DrawnCurve:
    x = np.arange(float(size))
    return DrawnCurve(run_id, rank, np.arange(size), x, np.sin(x / 9), size, 0)


def test_runs_have_the_colour_of_their_id_where_it_is_free_and_no_two_of_30_look_alike() -> None:
    assert {run_id: one.colour for run_id, one in looks([3, 12, 21, 40]).items()} == {3: 3, 12: 4, 21: 5, 40: 0}
    crowded = looks([1, 9, 17])
    assert (crowded[1].colour, crowded[9].colour, crowded[17].colour) == (1, 2, 3)
    assert looks([17, 1, 9]) == crowded
    found = looks(range(5, 95, 3))
    assert (
        len({(one.colour, one.dash) for one in found.values()})
        == len({(one.colour, one.symbol) for one in found.values()})
        == 30
    )
    assert len({one.colour for one in list(found.values())[:8]}) == 8
    assert {(one.dash, one.symbol) for one in list(found.values())[:8]} == {("solid", "circle")}
    found = [curve(4, 30, 0), curve(4, 30, 1), curve(5, 30)]
    picture = curve_charts.of_runs(found, {4: "four", 5: "five"}, looks([4, 5]), 0.9)
    assert picture.colours == [4, 4, 5]
    assert [trace.hovertemplate for trace in go.Figure(picture.figure).data][1].endswith("<extra>four, rank 1</extra>")


def test_smoothing_leaves_the_raw_line_faint_and_short_curves_sums_and_constants_as_they_are() -> None:
    picture = curve_charts.of_runs([curve(4, 200)], {4: "four"}, looks([4]), 0.9)
    raw, smooth = go.Figure(picture.figure).data
    assert (raw.opacity, raw.showlegend, smooth.opacity, smooth.name) == (curve_charts.FAINT, False, None, "four")
    assert raw.y == pytest.approx(curve(4, 200).y, abs=1e-6)
    assert smooth.y == pytest.approx(smoothed(curve(4, 200).y, 0.9), abs=1e-6)
    assert picture.colours == [4, 4]
    for size, amount in ((30, 0.9), (200, 0.0)):
        (trace,) = go.Figure(curve_charts.of_runs([curve(4, size)], {4: "four"}, looks([4]), amount).figure).data
        assert (len(trace.y), trace.line.dash, trace.opacity) == (size, looks([4])[4].dash, None)
    for values in (np.cumsum(np.abs(curve(4, 200).y)), np.full(200, 0.1), -np.arange(200.0)):
        (trace,) = go.Figure(
            curve_charts.of_runs([replace(curve(4, 200), y=values)], {4: "four"}, looks([4]), 0.9).figure
        ).data
        assert trace.y == pytest.approx(values) and trace.opacity is None
    assert [
        weight(name, 0.9) for name in ("train/loss", "anything/else", "perf/exchanged", "charts/running_length")
    ] == [0.9, 0.9, 0, 0]
    found = smoothed(np.array([4.0, NAN] * 200 + [8.0]), 0.5)
    assert found[0] == 4.0 and np.isnan(found[1]) and found[2] == pytest.approx(4.0) and found[-1] == pytest.approx(6.0)
    assert smoothed(np.array([1.0, 3.0]), 0.0).tolist() == [1.0, 3.0]


@pytest.mark.parametrize("size", [61, 100, 200])
def test_a_short_curve_is_smoothed_less_so_that_it_lags_by_at_most_a_twentieth_of_its_points(size: int) -> None:
    ramp = np.arange(float(size))
    assert 0 < (ramp - smoothed(ramp, 0.9)).max() <= size / 20
    assert smoothed((-1.0) ** ramp, 0.9).std() < 0.5


@pytest.mark.parametrize("size", [100, 1_000])
def test_an_average_does_not_begin_far_above_a_loss_that_falls_at_once(size: int) -> None:
    loss = np.exp(-np.arange(float(size)) / 4)
    above = smoothed(loss, 0.9) - loss
    assert (above[:10] <= (1 - loss[:10]) / 3).all()


def group(members: int) -> GroupLine:
    values = aligned([[member(np.arange(5.0), np.arange(5.0) + place)] for place in range(members)])
    ids = [10 + place for place in range(members)]
    return GroupLine("trainers 2", ids, values, line(values.values, "mean", "range"), members)


def test_a_group_is_a_closed_band_its_members_and_its_line_with_their_count() -> None:
    picture = curve_charts.of_groups([group(3)], [look(1)])
    band, members, centre = go.Figure(picture.figure).data
    assert (band.fill, members.opacity, centre.name, picture.colours) == (
        "toself",
        curve_charts.MEMBER,
        "trainers 2 (n=3)",
        [1, 1, 1],
    )
    assert centre.y.tolist() == [1, 2, 3, 4, 5]
    assert centre.customdata[0].tolist() == [3, 0, 2]
    assert members.hoverinfo == "skip", "one hover box lists the groups alone"
    assert "min to max: " in centre.hovertemplate
    (alone,) = go.Figure(curve_charts.of_groups([group(1)], [look(1)]).figure).data
    assert " to " not in alone.hovertemplate, "one run has no band"
    assert np.isnan(members.y).sum() == 3
    x = np.arange(6.0)
    low, high = np.array([0, 1, NAN, 3, 4, NAN]), np.array([10, 11, 12, 13, 14, NAN])
    along, upwards = outline(x, low, high)
    assert np.array_equal(along, [0, 1, 1, 0, NAN, 3, 4, 4, 3], equal_nan=True)
    assert np.array_equal(upwards, [0, 1, 11, 10, NAN, 3, 4, 14, 13], equal_nan=True)
    assert outline(x, np.full(6, NAN), high)[0].size == 0
    plain, cut = (
        curve_charts.of_groups([group(2)], [look(1)], log=log).figure["data"][0]["y"] for log in (False, True)
    )
    assert (min(plain), min(cut)) == (0, 1)
    assert sum(plain != cut) == 1
    (centre,) = go.Figure(curve_charts.of_groups([group(1)], [look(1)]).figure).data
    assert centre.name == "trainers 2 (n=1)"


@pytest.mark.parametrize("groups", [[3], [1, 2]])
def test_a_plain_figure_is_one_of_plotlys_and_leaves_as_plotly_sends_it(groups: list[int]) -> None:
    pictures = [
        curve_charts.of_runs([curve(4, 200, 0), curve(4, 30, 1)], {4: "<four>"}, looks([4]), 0.9),
        curve_charts.of_groups([group(members) for members in groups], [look(place) for place in range(len(groups))]),
    ]
    for picture in pictures:
        drawn = curve_charts.with_axes(picture, "test/accuracy", "passes", "xy", "seen")
        ours, theirs = plotly_figures.plain(drawn), plotly_figures.plain(go.Figure(drawn))
        assert json.loads(json.dumps(ours["layout"])) == json.loads(json.dumps(theirs["layout"]))
        assert [_numbers(trace) for trace in ours["data"]] == [_numbers(trace) for trace in theirs["data"]]


def _numbers(trace: Mapping[str, Any]) -> dict[str, Any]:
    """Return a trace with the numbers that its bytes stand for, of whichever width."""

    def read(value: Any) -> Any:
        if not (isinstance(value, Mapping) and "bdata" in value):
            return value
        found = np.frombuffer(b64decode(value["bdata"]), value["dtype"]).reshape(
            [int(size) for size in value.get("shape", "-1").split(",")]
        )
        return [str(each) for each in found.astype(float).ravel()], found.shape

    return {name: read(value) for name, value in trace.items()}


@pytest.mark.parametrize(("values", "kind"), [([1, 2**31 - 1], "i4"), ([1, 2**31], "f8"), ([], "i4")])
def test_whole_numbers_are_sent_as_a_browser_can_hold_them(values: list[int], kind: str) -> None:
    sent = plotly_figures.plain({"data": [{"x": np.array(values, dtype=np.int64)}], "layout": {}})["data"][0]["x"]
    assert sent["dtype"] == kind
    assert np.frombuffer(b64decode(sent["bdata"]), kind).tolist() == values


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1.0, 2.0], "int32"),
        ([1.5, 2.0], "float32"),
        ([1.0, NAN], "float32"),
        ([1.0, 3e9], "float64"),
        ([1e40, 1.5], "float64"),
    ],
)
def test_numbers_travel_in_as_few_bytes_as_hold_them(values: list[float], kind: str) -> None:
    found = compact(np.array(values))
    assert found.dtype == kind
    assert np.allclose(found, values, equal_nan=True)


def bar(values: dict[int, float], name: str = "a <b>") -> number_charts.ResultBar:
    return number_charts.ResultBar(name, values, look(0))


@pytest.mark.parametrize(
    ("number", "log", "kind"),
    [
        ("test/accuracy.last", False, "scatter"),
        ("perf/execution_time_s.last", False, "bar"),
        ("perf/execution_time_s.last", True, "scatter"),
    ],
)
def test_times_are_bars_from_0_and_accuracies_dots_each_with_its_band_and_a_mark_per_run(
    number: str, log: bool, kind: str
) -> None:
    figure, colours, height = number_charts.bars(
        [bar({1: 2.0, 2: 4.0}), bar({3: 7.0}, "c")], number, "mean", "ci", log=log
    )
    one, marks, other = figure.data
    assert (one.type, marks.type, other.type) == (kind, "scatter", kind)
    assert "min to max: " in one.hovertemplate and "max" not in other.hovertemplate
    json.dumps(plotly_figures.plain(figure), allow_nan=False)
    assert figure.layout.meta["units"] == {"x": "%" if "accuracy" in number else "s"}
    assert (one.x, one.error_x.array, one.error_x.arrayminus) == ((3.0,), (1.0,), (1.0,))
    assert (marks.x, marks.customdata, other.error_x.array) == ((2.0, 4.0), (1, 2), None)
    assert one.y == ("a &lt;b&gt;",)
    long = "Batch-updating parameter server, trainers 2, <b>"
    axis = number_charts.bars([bar({1: 2.0}), bar({2: 3.0}, long)], number, "mean", "ci")[0].layout.yaxis
    assert axis.ticktext == ("a &lt;b&gt;", "Batch-updating parameter server,<br>trainers 2, &lt;b&gt;")
    assert axis.tickvals == axis.categoryarray
    assert (len(colours), height > 100) == (3, True)


def test_parallel_lines_are_shaded_by_the_last_number() -> None:
    dots = [
        number_charts.Dot(run_id, f"{run_id}", [run_id, "rpc", run_id / 2], look(run_id), share)
        for run_id, share in ((1, 0.0), (2, 1.0), (3, None))
    ]
    figure, shades = number_charts.parallel(dots, ["trainers", "mode", "test/accuracy.last"])
    assert shades == [{"share": 0.0}, {"share": 1.0}, {"share": 0.5}]
    assert [list(trace.y) for trace in figure.data] == [[0, 0.5, 0], [0.5, 0.5, 0.5], [1, 0.5, 1]]
    assert list(figure.layout.xaxis.ticktext) == ["Trainers", "Mode", "Test accuracy<br>last (%)"]


@pytest.mark.parametrize(
    ("values", "heights", "ticks"),
    [
        ([1, 3, 2], [0, 1, 0.5], ["1", "2", "3"]),
        ([5, 5, None], [0.5, 0.5, None], ["5"]),
        (["gpipe", "rpc", "1f1b"], [0.5, 1, 0], ["1f1b", "gpipe", "rpc"]),
        ([True, False, None], [1, 0, None], ["false", "true"]),
        ([0.1, "none", 3], [0.0, 1.0, 0.5], ["0.1", "3", "none"]),
        (list(range(9)), [place / 8 for place in range(9)], ["0", "8"]),
    ],
)
def test_an_upright_axis_holds_numbers_in_proportion_and_words_in_order(
    values: list[Any], heights: list[float | None], ticks: list[str]
) -> None:
    found, written = number_charts.scale(values)
    assert found == heights
    assert sorted(text for _, text in written) == ticks


@pytest.mark.parametrize(
    ("number", "values", "ends"),
    [
        ("test/accuracy.last", (99.9, 94.0, 99.9), (94.527, 100.0)),
        ("perf/staleness.mean", (0.0, 3.0, 0.0), (0.0, 2.732)),
        ("x.last", (0.0, 3.0, 0.0), (-0.732, 2.732)),
    ],
)
def test_a_band_ends_where_no_value_is_possible(
    number: str, values: Sequence[float], ends: tuple[float, float]
) -> None:
    figure, _, _ = number_charts.bars([bar(dict(enumerate(values)))], number, "mean", "sd")
    (centre,), error = figure.data[0].x, figure.data[0].error_x
    assert (centre - error.arrayminus[0], centre + error.array[0]) == pytest.approx(ends, abs=1e-3)


def test_names_of_metrics_are_text_in_every_title_and_a_long_one_shows_its_end() -> None:
    name = f"<a href='//evil.example'>{'block/' * 30}norm"
    number = metric_written(name, "last")
    dots = [number_charts.Dot(at, str(at), [at, at * 2], look(at), share=at) for at in (0, 1)]
    bars, _, _ = number_charts.bars([number_charts.ResultBar("1", {1: 2.0}, look(0))], number, "mean", "sd")
    scatter, _ = number_charts.scatter(dots, number, metric_written("<b>loss</b>", "mean"), "")
    parallel, _ = number_charts.parallel(dots, [metric_written("top-1, top-5", "mean"), number])
    titles = [
        *(bars.layout.xaxis.title.text, scatter.layout.xaxis.title.text, scatter.layout.yaxis.title.text),
        *parallel.layout.xaxis.ticktext,
    ]
    assert [title.endswith("block/norm, last") for title in titles[:2]] == [True, True]
    assert titles[2:4] == ["&lt;b&gt;loss&lt;/b&gt;, mean", "top-1, top-5<br>mean"]
    assert titles[4].endswith("block/norm<br>last")
    assert all("<a" not in title and len(title) < 70 for title in titles)


def test_long_labels_lose_their_middle_where_that_leaves_them_apart() -> None:
    same = "model/encoder/" + "layers/" * 8
    names = [
        "loss",
        "m" * 60,
        f"{same}weight_norm",
        f"{same}gradient_norm",
        f"a{'b' * 40}1{'c' * 40}",
        f"a{'b' * 40}2{'c' * 40}",
    ]
    labels = short_labels(names, str)
    assert [*labels.values()] == [
        *names[:2],
        "model/enco…ers/layers/layers/weight_norm",
        "model/enco…s/layers/layers/gradient_norm",
        *names[4:],
    ]
