"""One run as a row of the Runs page: what it is, how far it is, whose it is, and what can be done with it."""

from collections.abc import Mapping
from html import escape

import streamlit as st

from app.actions.annotations import marks
from app.core.formatting import duration, since
from app.links.launch import LAUNCH, as_path, launch_query
from app.ui import current_user, widgets
from app.ui.html import as_text, bar, sweep_link, when
from app.ui.run_state import time_left
from engine.analysis.result import ranked
from engine.errors import EngineError
from engine.queue.forecast import Wait, start_in_words
from engine.registry import experiment
from engine.store import Reader
from engine.store.records import ALIVE, ENDED, RunRow


def row(run: RunRow, reader: Reader, waits: Mapping[int, Wait]) -> None:
    """Show one run; `waits` says why queued ones wait, and `reader` is asked for the place of those that it
    leaves out.
    """
    with st.container(border=True, gap="xsmall"):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            widgets.status_badge(run.status)
            st.page_link(
                widgets.PAGES["run"],
                label=as_text(f"{run.id}: {widgets.title_of(run)}"),
                query_params={"run": str(run.id)},
                width="stretch",
            )
            widgets.cancel_button(run)
        st.html(
            f"{_progress(run)}<div "
            f'class="pl-row">{"".join(f"<span>{part}</span>" for part in _words(run, reader, waits.get(run.id)))}</div>'
        )


def _progress(run: RunRow) -> str:
    if run.status == "queued" or (run.progress >= 1 and run.status == "finished"):
        return ""
    return bar(run.progress, f"Progress of run {run.id}", is_over=run.status in ENDED)


def _words(run: RunRow, reader: Reader, wait: Wait | None) -> list[str]:
    """Return the facts under the bar, as HTML."""
    said = [f"by {escape(run.owner)}", *marks(run)]
    if run.status == "queued":
        said += [*_waiting(run, reader, wait), f"queued {when(run.created_at)}"]
    elif run.status in ALIVE:
        said += [
            f"{run.progress:.0%} done",
            time_left(run),
            f"on for {duration(since(run.started_at or run.created_at))}",
        ]
    else:
        said += [
            f"took {duration(run.execution_time_s)}" if run.execution_time_s is not None else "",
            f"ended {when(run.ended_at)}",
        ]
        if run.status != "finished":
            said += [f"{run.progress:.0%} done", escape(run.cause)]
    if run.sweep_id:
        said.append(sweep_link(f"part of sweep {run.sweep_id}", run.sweep_id))
    result = ranked(run)
    said += [escape(result.words) if result else "", _clone_link(run)]
    return [part for part in said if part]


def _clone_link(run: RunRow) -> str:
    """Return a link to the launch form with the run's settings: a button each cost a page its speed.

    It is empty where the experiment is no longer known, or the person may not launch.
    """
    if not current_user.may("launch"):
        return ""
    try:
        query = launch_query(experiment(run.experiment), run.preset, run.config)
    except EngineError:
        return ""
    return (
        f'<a href="{escape(as_path(LAUNCH, query))}" title="Fill the launch form with this run\'s settings.">Clone</a>'
    )


def _waiting(run: RunRow, reader: Reader, wait: Wait | None) -> list[str]:
    """Return why a run waits and when it should start."""
    if wait is None:
        before = reader.queue.position(run.id)
        return [
            "on hold" if before is None else f"{before:,} before it in the queue" if before else "next in the queue"
        ]
    starts = start_in_words(wait.starts_in_s)
    return [escape(wait.reason), f"should start {escape(starts)}" if starts and wait.reason != "starts next" else ""]
