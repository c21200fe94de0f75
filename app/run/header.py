"""The header of a run page: title, status and cause, progress, result, actions and tabs."""

from collections.abc import Sequence

import streamlit as st
from markupsafe import Markup

from app.actions.annotations import baseline_beside, marks, marks_of
from app.actions.queue_actions import queue_actions, why_queued
from app.core.base_path import at
from app.export.downloads import download
from app.run import summary_html
from app.run.lineage import resume_button, retry_button
from app.run.report import run_report, settings_of
from app.ui import current_user, permissions, widgets
from app.ui.html import as_text, breadcrumb, duel_link, link, slot, sweep_link
from app.ui.run_state import disturbed_help, place_in_words, tab_title
from app.ui.time_difference import measure_again
from engine.analysis.comparability import in_words
from engine.home import Home
from engine.queue.cluster_wait import job_state
from engine.store import Reader
from engine.store.records import Run, RunRow
from engine.transfer.tables import Table, points_table

_WATCHED = "run.watched"
"""The active run that this session last showed."""


def heading(run: Run, entry: RunRow, reader: Reader, tabs: Sequence[str]) -> str:
    """Show the header, which stays on the screen while its page scrolls; return the chosen tab, which the address
    holds.
    """
    st.set_page_config(page_title=tab_title(entry))
    st.html(breadcrumb([link("Runs", at("/runs")), *_part_of(run, reader)], f"Run {run.id}"))
    with st.container(key="run-header", gap="small"):
        with st.container(key="run-state", gap="small"):
            with st.container(key="run-title", horizontal=True, vertical_alignment="center", gap="small"):
                st.title(as_text(f"Run {run.id}: {widgets.title_of(run)}"), anchor=False, width="stretch")
                with st.container(
                    key="run-actions", horizontal=True, vertical_alignment="center", gap="xsmall", width="content"
                ):
                    _actions(run, reader)
            with st.container(horizontal=True, vertical_alignment="center", gap="small"):
                widgets.status_badge(run)
                if run.target:
                    st.badge(f"on {place_in_words(run)}", color="gray", icon=":material/dns:", help=_job(run, reader))
                for word, by in marks(run).items():
                    st.badge(word, color="gray", help=f"by {as_text(by)}")
                if entry.disturbed:
                    st.badge(
                        f"disturbed {in_words(entry.disturbance or 0.0)}",
                        color="orange",
                        help=as_text(disturbed_help(run)),
                    )
                    st.html(measure_again([entry], reader), width="content")
                if run.status == "queued":
                    st.text(why_queued(run, reader), width="stretch")
                else:
                    st.html(slot("cause", summary_html.cause(run, entry, reader)), width="stretch")
                st.html(slot("result", summary_html.result(entry)), width="content")
            if run.active and run.status != "queued":
                st.html(slot("bar", summary_html.progress(entry)))
        chosen = st.segmented_control(
            "Section",
            tabs,
            key="section",
            default=tabs[0],
            required=True,
            bind="query-params",
            label_visibility="collapsed",
            wrap=True,
        )
    permissions.say_whose(f"Run {run.id}", run.owner)
    _announce_end(run, entry, reader)
    return chosen or tabs[0]


def _part_of(run: Run, reader: Reader) -> list[Markup]:
    """Return a link to the run's duel, else to its sweep; none if it was launched alone."""
    if not run.sweep_id:
        return []
    duel = reader.duels.of_sweep(run.sweep_id)
    return [duel_link(f"Duel {duel}", duel) if duel else sweep_link(f"Sweep {run.sweep_id}", run.sweep_id)]


def _announce_end(run: Run, entry: RunRow, reader: Reader) -> None:
    """Say what the run showed once it ends, to a person who watches it."""
    if run.active:
        st.session_state[_WATCHED] = run.id
    elif st.session_state.pop(_WATCHED, None) == run.id:
        said = summary_html.finding(run, entry, reader) if run.status == "finished" else run.cause
        ended = f"Run {run.id}:" if run.status == "cancelled" else f"Run {run.id} {run.status}."  # the cause says it
        st.toast(as_text(f"{ended} {said}"), duration="long")


def _actions(run: Run, reader: Reader) -> None:
    widgets.permalink(f"/run?run={run.id}")
    marks_of(run, baseline_beside(reader, run.experiment))
    _downloads(run)
    resume_button(run)
    queue_actions(run)
    retry_button(run)
    widgets.clone_button(run)
    if run.stop_kind != "force":
        widgets.cancel_button(run)


def _job(run: Run, reader: Reader) -> str:
    """Return the job of a run on a cluster, in words."""
    job = job_state(run, reader.cluster_jobs.of(run.id))
    return f"{f'Job {job.job_id}' if job and job.job_id else 'A job'} of Slurm on cluster {run.target}."


def _downloads(run: Run) -> None:
    """Show the download button: a report, tables, and a bundle once the run has ended."""
    by = current_user.whoever()

    def curves() -> Table:
        with Reader.open(Home.find()) as reader:
            return points_table(reader, [run.id])

    download(
        f"run-{run.id}",
        key=f"run-{run.id}",
        report=lambda: run_report(run.id, by),
        has_charts=True,
        tables={"Curves": curves, "Settings": settings_of(run)},
        runs=[] if run.active else [run.id],
    )
