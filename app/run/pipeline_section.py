"""The pipeline section of a run's page: one batch as a Gantt chart, where its time went, what to change, and the best
that can be had.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from html import escape

import plotly.graph_objects as go
import streamlit as st

from app.charts.pipeline_batches import batch, last_complete, slower_than_fewer_splits
from app.run.gantt import gantt, gantt_colours, gantt_height
from app.ui import components
from app.ui.html import as_text, number, table
from engine.analysis.pipeline.advice import Settings, SpeedupBound, advice, best_speed_up
from engine.analysis.pipeline.spans import BatchSpans, Measures, measure, unhindered
from engine.errors import EngineError
from engine.experiments.pipeline.config import LAYERS, PipelineConfig
from engine.store import Reader
from engine.store.records import RankRow, Run

NEWEST = "last complete"
MEASURED, UNHINDERED = "Measured", "Without waiting"
PER_STAGE = {"perf/activations_held": "Activations held", "perf/peak_memory": "Peak memory"}


def pipeline(run: Run, reader: Reader) -> None:
    """Show one batch of a pipeline's run: chart, numbers, a sentence on what to change, a row a stage."""
    try:
        config = PipelineConfig.check(run.config)
    except EngineError as error:
        st.write(as_text(f"This run's settings are of another version, so its batches can't be told apart: {error}"))
        return
    shown, view = _choose(run, config, reader)
    if not shown.spans:
        st.write(f"Batch {shown.number + 1} left no span of any stage.")
    elif not shown.complete:
        _chart(
            run,
            shown,
            shown,
            f"It {'is still coming in' if run.active else 'was not recorded whole'}, so it has no numbers.",
        )
    elif view == UNHINDERED:
        played = (
            "Its forwards, backwards and updates played in their order, without transfers and delays: the least "
            "time that they allow."
        )
        _chart(run, unhindered(shown, config.schedule), shown, played)
    else:
        _chart(run, shown, shown)
    if shown.complete:
        _numbers(run, config, shown, reader)


def _numbers(run: Run, config: PipelineConfig, shown: BatchSpans, reader: Reader) -> None:
    """Show what a complete batch comes to."""
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
    st.html(f'<div class="pl-tiles">{"".join(tiles(found, best))}</div>')
    st.markdown(as_text(causes(found)))
    st.markdown(
        f"**What to change:** {as_text(advice(found, settings, best, slower_than_fewer_splits(run, shown, reader)))}"
    )
    st.html(
        table(
            ["Stage", *_HEADERS],
            _rows(run, found, ranks, config, reader),
            caption="Where each stage's time and memory went",
        )
    )
    if cut:
        st.caption(as_text(cut))


def tiles(found: Measures, best: SpeedupBound) -> list[str]:
    """Return a batch's most telling numbers as HTML."""
    stages = len(found.shares)
    splits = f"{found.splits:,} split{'' if found.splits == 1 else 's'}"
    moved = (_percent(found.moving), "sending and receiving") if found.moving else ("–", "not recorded")
    return [
        _tile(
            "Bubble",
            _percent(found.bubble),
            "of the stages' time",
            "Share of all stages' time in this batch in which they neither computed nor updated.",
        ),
        _tile(
            "Ideal bubble",
            _percent(found.ideal),
            f"{stages} equal stages, {splits}",
            "(stages - 1) / (splits + stages - 1): equal stages, transfers in no time.",
        ),
        _tile(
            "With these stages",
            _percent(found.bound_bubble),
            f"at most {found.bound:.2f} × one at a time",
            "The bubble that these stages' forwards and backwards mean.",
        ),
        _tile("Transfers", *moved, "Share of all stages' time in which they sent or received."),
        _tile(
            "At work",
            f"{found.at_work:.2f}",
            f"of {stages} stages, on average",
            "Forwards, backwards and updates over the batch's time.",
        ),
        _tile(
            "Best speed-up here",
            f"{best.speed_up:.2f} ×",
            escape(best.because),
            "The most over one process with as many threads as one stage has.",
        ),
    ]


def causes(found: Measures) -> str:
    """Return what makes up the bubble, in a sentence."""
    parts = (
        f"{_points(found.of_schedule)} are the schedule's, {_points(found.of_unevenness)} come of unequal work, "
        f"{_points(found.of_waiting)} of transfers"
    )
    times = f"{found.least_s * 1e3:,.4g} instead of {found.window_s * 1e3:,.4g} ms"
    return (
        f"Of the {_points(found.bubble)} that stages idle, {parts} and delays: without these last the batch would "
        f"take {times}."
    )


def cuts_of(detail: str) -> tuple[int, ...]:
    """Return the layers that a cut's event names, as in 'Cut at 5,9,13' or 'cut=9'; empty where it names none."""
    named = re.search(r"\bcut(?:=| at | )(\d+(?:, ?\d+)*)", detail, re.IGNORECASE)
    return tuple(map(int, named[1].split(","))) if named else ()


def _choose(run: Run, config: PipelineConfig, reader: Reader) -> tuple[BatchSpans, str]:
    """Return the batch to show and how; both choices stand in the address."""
    recorded, settings = reader.details.recorded_batches(run.id, config.splits), config.model_dump()
    newest = last_complete(reader, run.id, recorded, settings)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        help_text = f"{len(recorded)} of {config.batches:,} were recorded span by span, the same ones at all stages."
        chosen = st.selectbox(
            "BatchSpans",
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
    """Return a batch's chart, made once: plotly takes 80 ms over 2,000 bars, and a page that follows a run asks each
    second.
    """
    return gantt(drawn, window_s)


_HEADERS = ("Share of the work", "Busy", "Transfers", "Waiting", *PER_STAGE.values())


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
                _percent(found.shares[stage]),
                *spent,
                *(
                    f'<span class="pl-nowrap">{number(value, 3)} MB</span>' if value is not None else "–"
                    for value in memory
                ),
            ]
        )
    return rows


def _tile(label: str, value: str, beside: str, help_text: str) -> str:
    return (
        '<div class="pl-tile" '
        f'title="{escape(help_text)}"><div>{label}</div><strong>{value}</strong><div>{beside}</div></div>'
    )


def _spent(seconds: float, window_s: float) -> str:
    return (
        f'<span class="pl-nowrap">{number(seconds * 1e3, 3)} ms ({_percent(seconds / window_s)})</span>'
        if seconds
        else "–"
    )


def _percent(share: float) -> str:
    return f"{share * 100:.1f} %" if 0 < share < 0.0995 else f"{share * 100:.0f} %"


def _points(share: float) -> str:
    return f"{share * 100:.1f} %"
