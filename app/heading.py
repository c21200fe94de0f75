"""The top of a run's page: what it is, its status and cause, how far it is, its most telling numbers, and what can be done with it."""

from html import escape

import streamlit as st

from app import parts
from app.durations import duration, since
from app.lineage import lineage, resume_button, retry_button
from app.markup import as_text, bar, number, sweep_link, table, when
from app.queueing import queue_actions, waits, why
from app.rows import time_left
from app.run_downloads import run_downloads
from engine.config import empty_means
from engine.errors import EngineError
from engine.metrics import metric
from engine.registry import experiment
from engine.store import Reader
from engine.store.origins import Origin
from engine.store.records import Run, RunRow, Summary

TOLD = (
    *("test/accuracy", "test/loss", "train/loss", "perf/samples_per_second", "perf/env_steps_per_second", "charts/episodic_return"),
    *("theory/omega", "theory/delta", "theory/rho"),
)
"""Metrics that the top of the page tells, in this order, as far as the run has them."""


def heading(run: Run, entry: RunRow, reader: Reader) -> None:
    """Show the top of the page."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.title(as_text(f"Run {run.id}: {parts.title_of(run)}"), anchor=False, width="stretch")
        _actions(run)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        parts.status_badge(run.status)
        st.text(_cause(run, entry, reader), width="stretch")
    lineage(run, reader)
    if run.active and run.status != "queued":
        st.html(bar(entry.progress, f"Progress of run {run.id}"))
    if run.error:
        with st.expander("What stands behind it", expanded=run.status == "failed"):
            st.code(run.error, language=None, wrap_lines=True, height=240 if run.error.count("\n") > 10 else "content")
    parts.show_facts(_facts(run, entry, reader.origin(run.id)))
    st.html(f'<div class="pl-tiles">{"".join(_tiles(reader.summaries(run.id), entry))}</div>')


def _actions(run: Run) -> None:
    with st.popover("Link", help="The address of this page, to keep or to send."):
        st.code(parts.page_address(f"/run?run={run.id}"), language=None, wrap_lines=True)
    run_downloads(run)
    resume_button(run)
    queue_actions(run)
    retry_button(run)
    parts.clone_button(run)
    parts.cancel_button(run)


def _cause(run: Run, entry: RunRow, reader: Reader) -> str:
    """Return where the run is and why, in a sentence."""
    if run.status == "queued" and run.is_held:
        return f"It waits: sweep {run.sweep_id}, which it is part of, is paused."
    if run.status == "queued":
        return why(run, waits(reader).get(run.id), reader)
    if run.status == "starting":
        return "The worker starts its ranks and loads the data."
    if run.status == "running":
        done = f"{run.progress_done:,} of {run.progress_total:,} {run.progress_unit}" if run.progress_total else "its work"
        return f"{entry.progress:.0%} done ({done}), {time_left(entry)}."
    if run.status == "stopping":
        how = "killed" if run.stop_kind == "force" else "ended"
        return f"Asked to stop by {run.stop_requested_by}; its processes are being {how}."
    return run.cause or "It ended without saying why."


def _facts(run: Run, entry: RunRow, origin: Origin | None) -> list[tuple[str, str]]:
    pairs = [("Owner", escape(run.owner)), ("Launched", when(run.created_at))]
    pairs.append(("Ended", when(run.ended_at)) if run.ended_at else ("Started", when(run.started_at)))
    on_for = run.execution_time_s
    if on_for is None and (here := since(run.started_at, run.ended_at)) is not None:
        on_for = run.time_before_s + here
    pairs.append(("Execution time", f'<span title="{escape(metric("perf/execution_time_s").help)}">{duration(on_for)}</span>'))
    pairs.append(("Start-up time", f'<span title="{escape(metric("perf/startup_time_s").help)}">{duration(run.startup_time_s)}</span>'))
    if run.demand.ranks:
        pairs.append(("Ranks", str(run.demand.ranks)))
    if run.terms.priority != "normal":
        pairs.append(("Priority", run.terms.priority))
    if run.cores or run.terms.oversubscribe:
        pairs.append(("Cores", "shared with other runs" if run.terms.oversubscribe else ", ".join(map(str, run.cores))))
    if run.terms.max_run_time_s:
        pairs.append(("Time limit", duration(run.terms.max_run_time_s)))
    if run.terms.max_retries:
        pairs.append(("Retries", f"{run.attempt} of {run.terms.max_retries}"))
    if run.sweep_id:
        pairs.append(("Part of", sweep_link(f"sweep {run.sweep_id}", run.sweep_id)))
    if origin is not None:
        pairs.append(("Comes from", escape(origin.words)))
    if run.tags:
        pairs.append(("Tags", escape(", ".join(run.tags))))
    return pairs


def _tiles(summaries: list[Summary], entry: RunRow) -> list[str]:
    """Return the telling metrics as HTML: the last value, beside it the best."""
    by_name = {summary.metric for summary in summaries}
    tiles = []
    for name in (name for name in TOLD if name in by_name and name in entry.last):
        known = metric(name)
        best = entry.best.get(name)
        beside = f"best {number(best)}" if best is not None and name.startswith(("test/", "charts/")) else ""
        unit = f" <small>{escape(known.unit)}</small>" if known.unit else ""
        value = f"<strong>{number(entry.last[name])}{unit}</strong>"
        tiles.append(f'<div class="pl-tile" title="{escape(known.help)}"><div>{escape(known.label)}</div>{value}<div>{beside}</div></div>')
    return tiles


def source_of(run: Run) -> str:
    """Return the paper or tutorial behind the run's experiment, empty where it is no longer known."""
    try:
        return experiment(run.experiment).source
    except EngineError:
        return ""


def settings_table(run: Run) -> str:
    """Return the run's config as an HTML table, what differs from its experiment's defaults marked."""
    try:
        fields = experiment(run.experiment).config.model_fields
    except EngineError:
        fields = {}
    rows = []
    for name, value in run.config.items():
        changed = name in fields and value != fields[name].default
        shown = (empty_means(fields[name]) if name in fields else "automatic") if value is None else escape(str(value))
        rows.append([escape(name), f"<strong>{shown}</strong>" if changed else shown, escape((fields[name].description or "") if name in fields else "")])
    return table(["Setting", "Value", "What it means"], rows, caption="The run's settings")
