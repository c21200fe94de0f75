"""The pipeline section of a run page: one batch as a Gantt chart, its time breakdown, advice, and the best possible
speed-up.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

import plotly.graph_objects as go
import streamlit as st
from markupsafe import Markup

from app.charts.pipeline_batches import batch, last_complete, slower_than_fewer_splits
from app.run.gantt import gantt, gantt_colours, gantt_height
from app.ui import components
from app.ui.html import as_text, nowrap, number, table, tile, tile_row
from engine.analysis.pipeline import (
    BatchSpans,
    Measures,
    Settings,
    SpeedupBound,
    advice,
    best_speed_up,
    measure,
    percent,
    unhindered,
)
from engine.errors import EngineError
from engine.experiments.pipeline.config import LAYERS, PipelineConfig
from engine.store import Reader
from engine.store.records import RankRow, Run

NEWEST = "last complete"
MEASURED, UNHINDERED = "Measured", "Without waiting"
CUT_IS_EARLIER = " These shares were measured before training; Work share above is of this batch."
PER_STAGE = {"perf/activations_held": "Activations held", "perf/peak_memory": "Peak memory"}


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
        _chart(run, unhindered(shown, config.schedule), shown, played)
    else:
        _chart(run, shown, shown)
    if shown.complete:
        _numbers(run, config, shown, reader)


def _numbers(run: Run, config: PipelineConfig, shown: BatchSpans, reader: Reader) -> None:
    """Show the metrics of a complete batch."""
    found, ranks = (
        measure(shown, config.schedule),
        [row for row in reader.details.ranks(run.id) if row.role in config.stage_roles],
    )
    cut = next((event.detail for event in reversed(reader.details.events(run.id)) if event.kind == "cut"), "")
    devices = [row.device for row in ranks] or ["cpu"] * config.stages
    best = best_speed_up(
        devices, run.demand.cores, run.demand.threads_per_rank, found.shares, config.splits, found.bound
    )
    settings = Settings(
        config.mode,
        config.schedule,
        config.batch_size,
        LAYERS[config.model],
        config.transport,
        config.cuts or cuts_of(cut),
    )
    st.html(tile_row(tiles(found, best)))
    st.markdown(as_text(f"Batch {shown.number + 1}: {causes(found)} Overview has the mean of all batches."))
    st.markdown(
        f"**Recommendation:** {as_text(advice(found, settings, best, slower_than_fewer_splits(run, shown, reader)))}"
    )
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
    splits = f"{found.splits:,} split{'' if found.splits == 1 else 's'}"
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
            f"{stages} equal stages, {splits}",
            "(stages - 1) / (splits + stages - 1): equal stages, zero transfer time.",
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


def cuts_of(detail: str) -> tuple[int, ...]:
    """Return the layers named by a cut event, as in 'Cut at 5,9,13' or 'cut=9'; empty if it names none."""
    named = re.search(r"\bcut(?:=| at | )(\d+(?:, ?\d+)*)", detail, re.IGNORECASE)
    return tuple(map(int, named[1].split(","))) if named else ()


def _choose(run: Run, config: PipelineConfig, reader: Reader) -> tuple[BatchSpans, str]:
    """Return the selected batch and chart type; both are kept in the address."""
    recorded, settings = reader.details.recorded_batches(run.id, config.splits), config.model_dump()
    newest = last_complete(reader, run.id, recorded, settings)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        help_text = f"{len(recorded)} of {config.batches:,} batches were traced, the same ones at all stages."
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
    what = (
        f"{drawn.stages} stages, {drawn.splits} micro-batch{'' if drawn.splits == 1 else 'es'}, "
        f"{drawn.window_s * 1e3:,.4g} ms."
    )
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
