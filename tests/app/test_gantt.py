"""The Gantt chart against the trace made by hand: where each bar lies, how long it is, what stands in it, how it is told apart."""

import plotly.graph_objects as go
import pytest

from app.gantt import KINDS, ROW_PX, gantt, gantt_colours, gantt_height, kinds
from engine.analysis.pipeline import Batch, batches, unhindered
from tests.analysis.traces import hand_made, made

KNOWN = {
    "forward": {(0, 0): (0, 10), (0, 1): (12, 10), (1, 0): (13, 15), (1, 1): (29, 15)},
    "backward": {(1, 0): (44, 15), (1, 1): (60, 15), (0, 0): (61, 10), (0, 1): (77, 10)},
}
"""Start and length in ms by (stage, micro-batch), as in traces.HAND_MADE."""


@pytest.fixture
def batch() -> Batch:
    return batches(hand_made(), 2, 2)[0]


def drawn(trace: go.Bar) -> list[tuple[float, float]]:
    """Return start and length of each bar in ms, to the nanosecond."""
    return [(round(start, 6), round(length, 6)) for start, length in zip(trace.base, trace.x, strict=True)]


def test_each_bar_lies_where_its_span_lay_and_bears_its_number(batch: Batch) -> None:
    traces = {trace.name: trace for trace in gantt(batch).data}
    for name, known in KNOWN.items():
        trace = traces[name]
        assert {(row, int(text)): times for row, text, times in zip(trace.y, trace.text, drawn(trace), strict=True)} == known
    update, sent = traces["update"], traces["send (below)"]
    assert dict(zip(update.y, drawn(update), strict=True)) == {1: (76, 3), 0: (87, 2)}
    assert list(zip(sent.y, drawn(sent), strict=True)) == [(0, (10, 2)), (0, (22, 2)), (1, (59, 1)), (1, (75, 1))]
    assert len(traces["receive (above)"].x) == 4


def test_rows_are_stages_with_the_first_on_top_and_time_begins_at_nought(batch: Batch) -> None:
    layout = gantt(batch).layout
    assert list(layout.yaxis.ticktext) == ["stage1", "stage2"]
    assert layout.yaxis.range[0] > layout.yaxis.range[1]
    assert (layout.xaxis.range[0], layout.barmode) == (0, "overlay")
    assert 89 <= layout.xaxis.range[1] < 90
    assert layout.height == gantt_height(2) == gantt_height(1) + ROW_PX


def test_kinds_differ_by_more_than_colour(batch: Batch) -> None:
    found = gantt(batch).data
    looks = [(trace.marker.pattern.shape, trace.width, trace.offset) for trace in found]
    assert len(set(looks)) == len(found) == 5
    assert len(set(gantt_colours(batch))) == 5
    assert found[0].marker.pattern.shape is None
    assert found[1].marker.pattern.shape == "/"


def test_no_mark_of_a_row_touches_another_row() -> None:
    for kind in KINDS.values():
        assert kind.offset > -0.5
        assert kind.offset + kind.width < 0.5
    bar = KINDS["forward"]
    assert KINDS["receive"].offset + KINDS["receive"].width < bar.offset
    assert bar.offset + bar.width < KINDS["send"].offset


def test_a_bar_tells_its_exact_times_and_a_transfer_what_it_moved(batch: Batch) -> None:
    told = [text for trace in gantt(batch).data for text in trace.customdata]
    assert "<b>stage2</b> forward of micro-batch 1<br>29.000 to 44.000 ms, 15.000 ms" in told
    assert "<b>stage1</b> send of micro-batch 0 to stage2, 2 MB<br>10.000 to 12.000 ms, 2.000 ms" in told
    assert "<b>stage1</b> receive of micro-batch 1 from stage2, 2 MB<br>76.000 to 77.000 ms, 1.000 ms" in told
    assert "<b>stage2</b> update<br>76.000 to 79.000 ms, 3.000 ms" in told
    assert len(told) == 18


@pytest.mark.parametrize(("stages", "splits"), [(2, 1), (2, 32), (4, 8), (4, 120)])
def test_every_span_of_any_size_is_drawn_once(stages: int, splits: int) -> None:
    spans = made("1f1b", (1 / stages,) * stages, splits, batch=3)
    figure = gantt(batches(spans, stages, splits)[0])
    assert sum(len(trace.x) for trace in figure.data) == len(spans) == stages * splits * 2 + 4 * (stages - 1) * splits + stages
    numbers = {text.strip("\u2007") for trace in figure.data[:2] for text in trace.text}
    assert numbers == {str(number) for number in range(splits)}
    assert len({len(text) for text in figure.data[0].text}) == 1
    assert (figure.data[0].marker.line.width == 0) == (splits == 120)


def test_what_a_batch_has_not_got_has_no_trace_and_an_axis_can_be_that_of_another(batch: Batch) -> None:
    free = unhindered(batch, "gpipe")
    assert kinds(free) == ["forward", "backward", "update"]
    figure = gantt(free, batch.window_s)
    assert figure.layout.xaxis.range == gantt(batch).layout.xaxis.range
    assert max(start + length for trace in figure.data for start, length in zip(trace.base, trace.x, strict=True)) == pytest.approx(82)
    assert gantt_colours(free) == [KINDS[name].colour for name in kinds(free)]
