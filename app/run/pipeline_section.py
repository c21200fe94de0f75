"""The pipeline section of a run page: one batch as a Gantt chart, its time breakdown, advice, and the best possible
speed-up.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import plotly.graph_objects as go
import streamlit as st
from markupsafe import Markup

from app.charts.sweep_data import batch, last_complete, slower_than_fewer_splits
from app.core.formatting import size
from app.ui import components
from app.ui.html import as_text, nowrap, number, table, tile, tile_row
from engine.analysis.comparability import in_words
from engine.analysis.pipeline import (
    BatchSpans,
    Measures,
    Settings,
    SpeedupBound,
    advice,
    best_speed_up,
    measure,
    percent,
    stage_work,
    unhindered,
)
from engine.errors import EngineError, counted
from engine.experiments.pipeline.config import PipelineConfig
from engine.pipelining import FORMULAS, ideal_bubble
from engine.recorder import Span
from engine.store import Reader
from engine.store.records import RankRow, Run, RunRow

NEWEST = "last complete"
MEASURED, UNHINDERED = "Measured", "Without waiting"
CUT_IS_EARLIER = " These shares were measured before training; Work share above is of this batch."
PER_STAGE = {"perf/activations_held": "Activations held", "perf/peak_memory": "Peak memory"}


def show_disturbance(entry: RunRow) -> None:
    """Show a caution to a recommendation for a disturbed run."""
    if entry.disturbed:
        share = in_words(entry.disturbance or 0.0)
        st.markdown(
            f":orange-badge[Caution] Other programs took {share} of this run's CPU time: measure it again before you "
            "follow the recommendation."
        )


def pipeline(run: Run, reader: Reader) -> None:
    """Show one batch of a pipeline run: chart, metrics, advice, and a row per stage."""
    try:
        config = PipelineConfig.check(run.config)
    except EngineError as error:
        st.write(as_text(f"Can't show the batches: this run's settings come from another version. {error}"))
        return
    shown, view = _choose(run, config, reader)
    if not shown.spans:
        st.write(f"Batch {shown.number + 1} has no recorded spans.")
    elif not shown.complete:
        _chart(
            run,
            shown,
            shown,
            f"{'Recording is in progress' if run.active else 'Recording is incomplete'}: no metrics for this batch.",
        )
    elif view == UNHINDERED:
        played = (
            "Replay of the measured forwards, backwards and updates in the same order, without transfers and "
            "delays: the minimum time for this batch."
        )
        _chart(run, unhindered(shown), shown, played)
    else:
        _chart(run, shown, shown)
    if shown.complete:
        _numbers(run, config, shown, reader)


def _numbers(run: Run, config: PipelineConfig, shown: BatchSpans, reader: Reader) -> None:
    """Show the metrics of a complete batch."""
    found, ranks = (
        measure(shown),
        [row for row in reader.details.ranks(run.id) if row.role in config.stage_roles],
    )
    cut = next((event.detail for event in reversed(reader.details.events(run.id)) if event.kind == "cut"), "")
    devices = [row.device for row in ranks] or ["cpu"] * config.stages
    best = best_speed_up(
        devices, run.demand.cores, run.demand.threads_per_rank, found.shares, config.splits, found.bound
    )
    settings = Settings(
        config.mode,
        config.batch_size,
        config.layers,
        config.transport,
        config.cuts or cuts_of(cut),
        config.layout.chunks,
        config.peer_schedule,
    )
    st.html(tile_row(tiles(found, best)))
    if not reader.exercises.withholds([run.id]):
        st.markdown(as_text(f"Batch {shown.number + 1}: {causes(found)} Overview has the mean of all batches."))
        if formula := by_formula(config, shown):
            st.caption(as_text(formula))
        said = advice(found, settings, best, slower_than_fewer_splits(run, shown, reader))
        st.markdown(f"**Recommendation:** {as_text(said)}")
        show_disturbance(reader.runs.entry(run.id))
    st.html(
        table(
            ["Stage", *_HEADERS],
            _rows(run, found, ranks, config, reader),
            caption="Time and memory by stage",
        )
    )
    if cut:
        st.caption(as_text(cut + CUT_IS_EARLIER))


def tiles(found: Measures, best: SpeedupBound) -> list[Markup]:
    """Return a batch's key metrics as HTML tiles."""
    stages = len(found.shares)
    splits = counted(found.splits, "split")
    moved = (percent(found.moving), "send and receive") if found.moving else ("–", "not recorded")
    return [
        tile(
            "Bubble",
            percent(found.bubble),
            "of stage time",
            "Share of the stage time in this batch spent neither computing nor updating.",
        ),
        tile(
            "Ideal bubble",
            percent(found.ideal),
            f"{counted(stages, 'equal stage')}, {splits}",
            "The bubble of the same order of work with equal stages and zero transfer time.",
        ),
        tile(
            "With these stages",
            percent(found.bound_bubble),
            f"at most {found.bound:.2f} × serial execution",
            "Bubble of this batch without transfers and delays, with its measured forwards, backwards and updates. "
            "It may be below the ideal one, which has no updates and equal micro-batches.",
        ),
        tile("Transfers", *moved, "Share of the stage time spent sending or receiving."),
        tile(
            "Busy stages",
            f"{found.at_work:.2f}",
            f"of {stages} on average",
            "Total time of forwards, backwards and updates divided by the batch time.",
        ),
        tile(
            "Max speed-up here",
            f"{best.speed_up:.2f} ×",
            best.because,
            "Upper bound of the speed-up over one process with as many threads as one stage.",
        ),
    ]


def causes(found: Measures) -> str:
    """Return the parts of the bubble, as a sentence."""
    parts = (
        f"{percent(found.ideal)} for equal stages, {_points(found.of_unevenness)} for the durations of these "
        f"stages and micro-batches, {_points(found.of_waiting)} for transfers and delays"
    )
    times = f"{found.least_s * 1e3:,.4g} instead of {found.window_s * 1e3:,.4g} ms"
    return f"Bubble {percent(found.bubble)}: {parts}. Without transfers and delays the batch would take {times}."


def by_formula(config: PipelineConfig, shown: BatchSpans) -> str:
    """Return the bubble by the formula of the schedule's paper, as a sentence; empty where none holds."""
    layout, schedule = config.layout, config.schedule
    if config.mode == "rpc" or (schedule == "zb_h1" and layout.splits < layout.stages):
        return ""
    work = [sum(kind) for kind in zip(*stage_work(shown), strict=True)]
    letters = {"p": layout.stages, "m": layout.splits} | ({"v": layout.chunks} if layout.chunks > 1 else {})
    given = [f"{letter} = {count}" for letter, count in letters.items()]
    if schedule == "zb_h1":
        each = layout.stages * layout.splits
        means = zip("FBW", work, strict=True)
        given += [f"{letter} = {number(1e3 * spent / each, 3)} ms" for letter, spent in means]
    share = percent(ideal_bubble(schedule, layout, work))
    return f"Formula of {schedule} for equal stages: {FORMULAS[schedule]}, here {share} ({', '.join(given)})."


def cuts_of(detail: str) -> tuple[int, ...]:
    """Return the layers named by a cut event, as in 'Cut at 5,9,13' or 'cut=9'; empty if it names none."""
    named = re.search(r"\bcut(?:=| at | )(\d+(?:, ?\d+)*)", detail, re.IGNORECASE)
    return tuple(map(int, named[1].split(","))) if named else ()


def _choose(run: Run, config: PipelineConfig, reader: Reader) -> tuple[BatchSpans, str]:
    """Return the selected batch and chart type; both are kept in the address."""
    recorded, settings = reader.details.recorded_batches(run.id, config.splits), config.model_dump()
    newest = last_complete(reader, run.id, recorded, settings)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        help_text = f"{len(recorded)} of {counted(config.batches, 'batch')} were traced, the same ones at all stages."
        chosen = st.selectbox(
            "Batch",
            [NEWEST, *(str(number + 1) for number in reversed(recorded))],
            key="batch",
            bind="query-params",
            help=help_text,
            width=190,
        )
        view = st.segmented_control(
            "Chart", [MEASURED, UNHINDERED], key="chart", default=MEASURED, required=True, bind="query-params"
        )
    shown = newest if chosen in (None, NEWEST) else batch(reader, run.id, int(chosen) - 1, settings)
    return shown, view or MEASURED


def _chart(run: Run, drawn: BatchSpans, measured: BatchSpans, says: str = "") -> None:
    what = f"{counted(drawn.stages, 'stage')}, {counted(drawn.splits, 'micro-batch')}, {drawn.window_s * 1e3:,.4g} ms."
    st.caption(f"Batch {drawn.number + 1}: {what} {says}")
    alt = f"Gantt chart of batch {drawn.number + 1}: {what}"
    components.figure(
        f"gantt-{run.id}",
        _picture(drawn, measured.window_s),
        alt=alt,
        height=gantt_height(drawn.stages),
        colours=gantt_colours(drawn),
        table=True,
    )


@lru_cache(maxsize=16)
def _picture(drawn: BatchSpans, window_s: float) -> go.Figure:
    """Return a batch's chart, cached: Plotly needs 80 ms for 2,000 bars, and a live page requests the chart every
    second.
    """
    return gantt(drawn, window_s)


_HEADERS = ("Work share", "Busy", "Transfers", "Waiting", *PER_STAGE.values())


def _rows(
    run: Run, found: Measures, ranks: Sequence[RankRow], config: PipelineConfig, reader: Reader
) -> list[list[str]]:
    rank_of = {row.role: row.rank for row in ranks}
    kept = {
        (summary.metric, summary.rank): summary.last
        for summary in reader.details.summaries(run.id)
        if summary.metric in PER_STAGE
    }
    rows = []
    for stage, role in enumerate(config.stage_roles):
        spent = [_spent(part[stage], found.window_s) for part in (found.busy_s, found.moving_s, found.waiting_s)]
        memory = [kept.get((name, rank_of.get(role, -1))) for name in PER_STAGE]
        rows.append(
            [
                role,
                percent(found.shares[stage]),
                *spent,
                *(nowrap(f"{number(value, 3)} MB") if value is not None else "–" for value in memory),
            ]
        )
    return rows


def _spent(seconds: float, window_s: float) -> str:
    return nowrap(f"{number(seconds * 1e3, 3)} ms ({percent(seconds / window_s)})") if seconds else "–"


def _points(share: float) -> str:
    """Return a difference of two shares in percentage points, with its sign."""
    return f"{100 * share:+.1f} points"


# ---- The Gantt chart of one pipeline batch: one row per stage, one bar per action ----------------------------------
# Pure function, coloured by the theme.

ROW_PX, FRAME_PX = 62, 104
WIDE_SPACE = "\u2007"
"""A space as wide as a digit, to give all labels the same width: Plotly then shows all of them or none."""
PALER = 0.9
"""Range of opacity over the chunks of a stage."""
NARROW = 40
"""Number of splits up to which bars are outlined; with more splits, bars are too narrow for an outline."""


@dataclass(frozen=True)
class SpanStyle:
    """Style of the spans with one name; `offset` and `width` are in rows, relative to the centre of a stage's row."""

    label: str
    colour: int
    offset: float
    width: float
    pattern: str = ""
    numbered: bool = False


KINDS = {
    "forward": SpanStyle("forward", 0, -0.31, 0.62, numbered=True),
    "backward": SpanStyle("backward", 1, -0.31, 0.62, "/", numbered=True),
    "input_gradient": SpanStyle("input gradient", 1, -0.31, 0.62, "/", numbered=True),
    "weight_gradient": SpanStyle("weight gradient", 4, -0.31, 0.62, "\\", numbered=True),
    "update": SpanStyle("update", 2, -0.31, 0.62, "x"),
    "receive": SpanStyle("receive (above)", 3, -0.43, 0.09),
    "send": SpanStyle("send (below)", 5, 0.34, 0.09),
}


def gantt(batch: BatchSpans, window_s: float | None = None) -> go.Figure:
    """Return the chart of a batch in milliseconds from its start, with stage1 at the top; `window_s` extends the axis
    beyond the batch.
    """
    figure = go.Figure()
    for name, chunk in kinds(batch):
        spans = [span for span in batch.spans if span.name == name and chunk in (None, span.stage // batch.stages)]
        figure.add_bar(**_bars(batch, KINDS[name], spans, chunk))
    roles = [f"stage{stage + 1}" for stage in range(batch.stages)]
    rows = {
        "range": [batch.stages - 0.5, -0.5],
        "tickvals": list(range(batch.stages)),
        "ticktext": roles,
        "showgrid": False,
        "zeroline": False,
    }
    end = max(window_s or 0.0, batch.window_s) * 1e3
    figure.update_layout(
        barmode="overlay",
        hovermode="closest",
        height=gantt_height(batch.stages),
        uniformtext={"minsize": 9, "mode": "hide"},
        legend={"traceorder": "normal"},
        showlegend=True,
        xaxis={"title": {"text": "Time since batch start (ms)"}, "range": [0, end * 1.004], "zeroline": False},
        yaxis={**rows, "fixedrange": True},
    )
    return figure


def kinds(batch: BatchSpans) -> list[tuple[str, int | None]]:
    """Return the traces of a batch in order: the name of their spans and, for numbered ones of several chunks, the
    chunk.
    """
    found = {span.name for span in batch.spans}
    chunks = range(batch.layout.chunks) if batch.layout.chunks > 1 else (None,)
    return [(name, chunk) for name in KINDS if name in found for chunk in (chunks if KINDS[name].numbered else (None,))]


def gantt_colours(batch: BatchSpans) -> list[int]:
    """Return the palette index of each trace."""
    return [KINDS[name].colour for name, _ in kinds(batch)]


def gantt_height(stages: int) -> int:
    """Return the figure height for a number of stages, in pixels."""
    return FRAME_PX + ROW_PX * stages


def _bars(batch: BatchSpans, kind: SpanStyle, spans: Sequence[Span], chunk: int | None) -> dict[str, Any]:
    """Return the bars of one kind. Work bars are outlined, optionally hatched, and numbered if the number fits; later
    chunks are paler.
    """
    marker: dict[str, Any] = {}
    digits, start_ns = len(str(batch.splits - 1)), batch.start_ns
    if kind.width > 0.5:
        marker = {"line": {"width": 1 if batch.splits <= NARROW else 0}}
        if kind.pattern:
            marker["pattern"] = {
                "shape": kind.pattern,
                "size": 8,
                "solidity": 0.2,
                "fgopacity": 0.4,
                "fillmode": "overlay",
            }
    return {
        "orientation": "h",
        "name": kind.label if chunk is None else f"{kind.label}, chunk {chunk + 1}",
        "opacity": 1 - (chunk or 0) * PALER / batch.layout.chunks,
        "y": [batch.stage_of(span) for span in spans],
        "base": [(span.t0_ns - start_ns) / 1e6 for span in spans],
        "x": [(span.t1_ns - span.t0_ns) / 1e6 for span in spans],
        "width": kind.width,
        "offset": kind.offset,
        "marker": marker,
        "text": [str(_number(batch, span)).center(digits, WIDE_SPACE) if kind.numbered else "" for span in spans],
        "textposition": "inside" if kind.numbered else "none",
        "insidetextanchor": "middle",
        "textangle": 0,
        "customdata": [_hover(batch, span, start_ns) for span in spans],
        "hovertemplate": "%{customdata}<extra></extra>",
    }


def _number(batch: BatchSpans, span: Span) -> int:
    """Return the micro-batch number of a span within its batch, starting from 0."""
    return span.micro_batch - batch.number * batch.splits


def _hover(batch: BatchSpans, span: Span, start_ns: int) -> str:
    number = _number(batch, span)
    what = span.name.replace("_", " ")
    if span.name != "update":
        what += f" of micro-batch {number}"
    if span.name != "update" and batch.layout.chunks > 1:
        what += f", chunk {span.stage // batch.stages + 1}"
    if span.name in ("send", "receive"):
        preposition = "to" if span.name == "send" else "from"
        what += (f" {preposition} {span.peer}" if span.peer else "") + f", {size(span.bytes)}"
    start, end = ((at - start_ns) / 1e6 for at in (span.t0_ns, span.t1_ns))
    return f"<b>stage{batch.stage_of(span) + 1}</b> {what}<br>{start:,.3f} to {end:,.3f} ms, {end - start:,.3f} ms"
