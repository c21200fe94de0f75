"""The pipeline section of a run's page, from runs in a real store: there only where spans are, right numbers, whatever
came in so far.
"""

import plotly.graph_objects as go
import pytest
from streamlit.testing.v1 import AppTest

from app.run import pipeline_section
from app.run.pipeline_section import KINDS, ROW_PX, gantt, gantt_colours, gantt_height, kinds
from engine.analysis.pipeline import BatchSpans, batches, measure, unhindered
from engine.home import Home
from engine.pipelining import Layout
from engine.recorder import Span
from engine.store import Reader, Store
from engine.store.records import Status
from tests.analysis.traces import hand_made, made
from tests.app.reading import all_words, opened
from tests.labs import basic


def section(run_id: int, **query: str) -> AppTest:
    test = opened("run", {"run": str(run_id), "section": "Pipeline"} | query)
    assert not test.exception
    assert not test.error
    return test


def charts(test: AppTest) -> list[str]:
    """Return what the page's figures are told, the Gantt chart among them."""
    return [text for element in test.get("bidi_component") if "Gantt chart of batch" in (text := str(element.proto))]


def test_the_section_is_there_only_for_pipelines_with_spans(home: Home, lab: dict[Status, int], store: Store) -> None:
    basic.write_spans(store, lab["running"], hand_made())
    assert "Pipeline" not in opened("run", {"run": str(lab["running"])}).button_group(key="section").options
    run_id = basic.pipeline_run(store, shares=(0.5, 0.5), splits=4, recorded=())
    assert "Pipeline" not in opened("run", {"run": str(run_id)}).button_group(key="section").options
    basic.write_spans(store, run_id, made("gpipe", (0.5, 0.5), 4))
    assert "Pipeline" in opened("run", {"run": str(run_id)}).button_group(key="section").options


def test_the_numbers_are_those_of_the_batch_made_by_hand(store: Store) -> None:
    run_id = basic.pipeline_run(store, shares=(0.4, 0.6), splits=2, recorded=())
    basic.write_spans(store, run_id, hand_made())
    shown = all_words(section(run_id))
    for number in (
        "<strong>41.0 %</strong>",
        "<strong>33.3 %</strong>",
        "<strong>36.0 %</strong>",
        "<strong>5.6 %</strong>",
        "<strong>1.18</strong>",
    ):
        assert number in shown
    assert "at most 1.28 × serial execution" in shown
    assert (
        "Bubble 41.0 %: 33.3 % for equal stages, +2.6 points for the durations of these stages and micro-batches, "
        "+5.0 points for transfers and delays."
    ) in shown
    assert "would take 82 instead of 89 ms" in shown
    for cell in ("40.0 %", "42 ms (47.2 %)", "6 ms (6.7 %)", "41 ms (46.1 %)", "96.5 MB", "48.2 MB", "950 MB"):
        assert cell in shown
    assert "Raise splits to 4: equal stages then idle 20 %" in shown
    assert "schedule alone leaves stages idle 33.3 % of the time" in shown, "the ideal bubble, as in its tile"
    assert "The net was cut by measured time: cut=1. These shares were measured before training" in shown


def test_a_batch_is_chosen_by_its_link_the_last_complete_one_without_and_its_least_time_is_drawn(store: Store) -> None:
    run_id = basic.pipeline_run(store, shares=(0.3, 0.7), splits=4)
    assert "Gantt chart of batch 20" in charts(section(run_id))[0]
    test = section(run_id, batch="3")
    assert "Gantt chart of batch 3:" in charts(test)[0]
    assert test.selectbox(key="batch").options == ["last complete", "20", "11", "3", "2", "1"]
    assert "5 of 20 batches were traced" in test.selectbox(key="batch").help
    test.selectbox(key="batch").set_value("11").run()
    assert "Gantt chart of batch 11:" in charts(test)[0]
    test = section(run_id, chart=pipeline_section.UNHINDERED)
    least = measure(batches(made("gpipe", (0.3, 0.7), 4, batch=19), Layout(2, 4))[0]).least_s
    assert f"2 stages, 4 micro-batches, {least * 1e3:,.4g} ms" in charts(test)[0]
    assert "in the same order, without transfers and delays" in all_words(test)
    assert "send (below)" not in charts(test)[0]


def test_while_batches_come_in_whole_ones_are_shown_and_the_others_are_said(store: Store) -> None:
    run_id = basic.pipeline_run(store, shares=(0.3, 0.7), splits=4, ended=False)
    coming = made("gpipe", (0.3, 0.7), 4, batch=20)
    basic.write_spans(store, run_id, [span for span in coming if span.stage == 1])
    test = section(run_id)
    assert "Gantt chart of batch 20:" in charts(test)[0]
    half = section(run_id, batch="21")
    assert "Recording is in progress: no metrics for this batch." in all_words(half)
    assert "Recommendation" not in all_words(half)
    basic.write_spans(store, run_id, [span for span in coming if span.stage == 0])
    assert "Gantt chart of batch 21:" in charts(test.run())[0]
    run_id = basic.pipeline_run(store, shares=(0.5, 0.5), splits=2, recorded=())
    basic.write_spans(store, run_id, [Span("forward", 0, 0, 10, 5_000_010)])
    test = section(run_id)
    sentence = "Batch 1: 2 stages, 2 micro-batches, 5 ms. Recording is incomplete: no metrics for this batch."
    assert sentence in all_words(test)
    assert len(charts(test)) == 1
    basic.write_spans(store, run_id, [Span("forward", -1, 2, 10, 5_000_010)])
    assert "Batch 2 has no recorded spans." in all_words(section(run_id))


def test_a_run_with_fewer_splits_shows_that_small_micro_batches_cost_more(store: Store) -> None:
    large = basic.pipeline_run(store, shares=(0.5, 0.5), splits=4)
    basic.pipeline_run(store, shares=(0.5, 0.5), splits=4, image_size=32, trace={"slow": 0.1})
    small = basic.pipeline_run(store, shares=(0.5, 0.5), splits=16, trace={"slow": 2.2})
    assert f"Lower splits to 4: an image takes 2.2 times as much work as in run {large}" in all_words(section(small))
    assert "Lower splits" not in all_words(section(large))


@pytest.mark.parametrize(
    ("mode", "shares", "splits"),
    [
        ("gpipe", (0.3, 0.7), 3),
        ("1f1b", (0.25,) * 4, 8),
        ("interleaved", (0.5, 0.5), 4),
        ("zb_h1", (0.5, 0.5), 4),
        ("rpc", (0.5, 0.5), 2),
        ("torch_pipelining", (0.5, 0.5), 1),
    ],
)
def test_every_mode_is_shown(store: Store, mode: str, shares: tuple[float, ...], splits: int) -> None:
    run_id = basic.pipeline_run(store, shares=shares, splits=splits, mode=mode)
    shown = all_words(section(run_id))
    assert "Recommendation:" in shown
    assert f"stage{len(shares)}" in shown
    assert "950 MB" in shown
    assert ("not recorded" in shown) == (mode in ("rpc", "torch_pipelining"))


@pytest.mark.parametrize(
    ("detail", "cuts"),
    [
        ("Cut at 5,9,13 by measured time: stage1 has layers 0 to 4, 26 %.", (5, 9, 13)),
        ("cut=5,9,13", (5, 9, 13)),
        ("The net was cut by time: cut=9.", (9,)),
        ("cut at 3, 7 of 18", (3, 7)),
        ("cut into 2 stages", ()),
        ("", ()),
    ],
)
def test_a_cut_is_read_from_its_event(detail: str, cuts: tuple[int, ...]) -> None:
    assert pipeline_section.cuts_of(detail) == cuts


def test_a_batch_is_read_alone_and_one_that_is_not_there_is_the_last_complete_one(
    store: Store, home: Home, reader: Reader
) -> None:
    run_id = basic.pipeline_run(store, shares=(0.25,) * 4, splits=120)
    assert reader.details.recorded_batches(run_id, 120) == [0, 1, 2, 10, 19]
    assert len(reader.details.batch_spans(run_id, 10, 120)) == 4 * 120 * 2 + 4 * 3 * 120 + 4
    assert "4 stages, 120 micro-batches" in charts(section(run_id))[0]
    run_id, other = (
        basic.pipeline_run(store, shares=(0.5, 0.5), splits=2, recorded=recorded) for recorded in ((0, 1, 10), (0, 3))
    )
    test = section(run_id, batch="8")
    assert "Gantt chart of batch 11:" in charts(test)[0]
    test.selectbox(key="batch").set_value("2").run()
    assert "Gantt chart of batch 2:" in charts(test)[0]
    test.query_params["run"], test.query_params["batch"] = str(other), "2"
    assert "Gantt chart of batch 4:" in charts(test.run())[0]
    assert not test.exception


KNOWN = {
    "forward": {(0, 0): (0, 10), (0, 1): (12, 10), (1, 0): (13, 15), (1, 1): (29, 15)},
    "backward": {(1, 0): (44, 15), (1, 1): (60, 15), (0, 0): (61, 10), (0, 1): (77, 10)},
}
"""Start and length in ms by (stage, micro-batch), as in traces.HAND_MADE."""


@pytest.fixture
def batch() -> BatchSpans:
    return batches(hand_made(), Layout(2, 2))[0]


def drawn(trace: go.Bar) -> list[tuple[float, float]]:
    """Return start and length of each bar in ms, to the nanosecond."""
    return [(round(start, 6), round(length, 6)) for start, length in zip(trace.base, trace.x, strict=True)]


def test_each_bar_lies_where_its_span_lay_tells_its_times_and_differs_by_more_than_colour(batch: BatchSpans) -> None:
    traces = {trace.name: trace for trace in gantt(batch).data}
    for name, known in KNOWN.items():
        trace = traces[name]
        assert {
            (row, int(text)): times for row, text, times in zip(trace.y, trace.text, drawn(trace), strict=True)
        } == known
    update, sent = traces["update"], traces["send (below)"]
    assert dict(zip(update.y, drawn(update), strict=True)) == {1: (76, 3), 0: (87, 2)}
    assert list(zip(sent.y, drawn(sent), strict=True)) == [(0, (10, 2)), (0, (22, 2)), (1, (59, 1)), (1, (75, 1))]
    assert len(traces["receive (above)"].x) == 4
    found = gantt(batch).data
    looks = [(trace.marker.pattern.shape, trace.width, trace.offset) for trace in found]
    assert len(set(looks)) == len(found) == 5
    assert len(set(gantt_colours(batch))) == 5
    assert found[0].marker.pattern.shape is None
    assert found[1].marker.pattern.shape == "/"
    told = [text for trace in gantt(batch).data for text in trace.customdata]
    assert "<b>stage2</b> forward of micro-batch 1<br>29.000 to 44.000 ms, 15.000 ms" in told
    assert "<b>stage1</b> send of micro-batch 0 to stage2, 2.0 MB<br>10.000 to 12.000 ms, 2.000 ms" in told
    assert "<b>stage1</b> receive of micro-batch 1 from stage2, 2.0 MB<br>76.000 to 77.000 ms, 1.000 ms" in told
    assert "<b>stage2</b> update<br>76.000 to 79.000 ms, 3.000 ms" in told
    assert len(told) == 18
    layout = gantt(batch).layout
    assert list(layout.yaxis.ticktext) == ["stage1", "stage2"]
    assert layout.yaxis.range[0] > layout.yaxis.range[1]
    assert (layout.xaxis.range[0], layout.barmode) == (0, "overlay")
    assert 89 <= layout.xaxis.range[1] < 90
    assert layout.height == gantt_height(2) == gantt_height(1) + ROW_PX


def test_rows_do_not_touch_and_what_a_batch_has_not_got_has_no_trace(batch: BatchSpans) -> None:
    for kind in KINDS.values():
        assert kind.offset > -0.5
        assert kind.offset + kind.width < 0.5
    bar = KINDS["forward"]
    assert KINDS["receive"].offset + KINDS["receive"].width < bar.offset
    assert bar.offset + bar.width < KINDS["send"].offset
    free = unhindered(batch)
    assert kinds(free) == [("forward", None), ("backward", None), ("update", None)]
    figure = gantt(free, batch.window_s)
    assert figure.layout.xaxis.range == gantt(batch).layout.xaxis.range
    assert max(
        start + length for trace in figure.data for start, length in zip(trace.base, trace.x, strict=True)
    ) == pytest.approx(82)
    assert gantt_colours(free) == [KINDS[name].colour for name, _ in kinds(free)]


@pytest.mark.parametrize(("stages", "splits"), [(2, 1), (2, 32), (4, 8), (4, 120)])
def test_every_span_of_any_size_is_drawn_once(stages: int, splits: int) -> None:
    spans = made("1f1b", (1 / stages,) * stages, splits, batch=3)
    figure = gantt(batches(spans, Layout(stages, splits))[0])
    assert (
        sum(len(trace.x) for trace in figure.data)
        == len(spans)
        == stages * splits * 2 + 4 * (stages - 1) * splits + stages
    )
    numbers = {text.strip("\u2007") for trace in figure.data[:2] for text in trace.text}
    assert numbers == {str(number) for number in range(splits)}
    assert len({len(text) for text in figure.data[0].text}) == 1
    assert (figure.data[0].marker.line.width == 0) == (splits == 120)
