"""The top of a run's page: what it is, its status and cause, how far it is, its most telling numbers, and what can be
done with it.
"""

from html import escape

import streamlit as st

from app.actions.annotations import baseline_beside, marks, marks_of
from app.actions.queue_actions import queue_actions, waits, why
from app.export.downloads import download
from app.run import summary_html
from app.run.lineage import lineage, resume_button, retry_button, what_next
from app.run.report import run_report, settings_of
from app.ui import current_user, permissions, widgets
from app.ui.html import as_text, slot, table
from engine.config import empty_means
from engine.errors import EngineError
from engine.home import Home
from engine.registry import experiment
from engine.store import Reader
from engine.store.records import Run, RunRow
from engine.transfer.point_rows import points_table
from engine.transfer.tables import Table


def heading(run: Run, entry: RunRow, reader: Reader) -> None:
    """Show the top of the page."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.title(as_text(f"Run {run.id}: {widgets.title_of(run)}"), anchor=False, width="stretch")
        _actions(run, reader)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        widgets.status_badge(run.status)
        for word, by in marks(run).items():
            st.badge(word, color="gray", help=f"by {as_text(by)}")
        if run.status == "queued":
            st.text(_waits_for(run, reader), width="stretch")
        else:
            st.html(slot("cause", summary_html.cause(run, entry)), width="stretch")
    lineage(run, reader)
    what_next(run, reader)
    permissions.say_whose(f"Run {run.id}", run.owner)
    if run.active and run.status != "queued":
        st.html(slot("bar", summary_html.progress(entry)))
    if run.error:
        with st.expander("What stands behind it", expanded=run.status == "failed"):
            st.code(run.error, language=None, wrap_lines=True, height=240 if run.error.count("\n") > 10 else "content")
    st.html(slot("facts", summary_html.facts_of(run, reader.origins.of(run.id))))
    st.html(slot("tiles", summary_html.tiles(reader.details.summaries(run.id), entry)))


def _actions(run: Run, reader: Reader) -> None:
    with st.popover("Link", help="The address of this page, to keep or to send."):
        st.code(widgets.page_address(f"/run?run={run.id}"), language=None, wrap_lines=True)
    marks_of(run, baseline_beside(reader, run.experiment))
    _downloads(run)
    resume_button(run)
    queue_actions(run)
    retry_button(run)
    widgets.clone_button(run)
    if run.stop_kind != "force":
        widgets.cancel_button(run)


def _waits_for(run: Run, reader: Reader) -> str:
    """Return why a queued run waits, in a sentence."""
    if run.is_held:
        return f"It waits: sweep {run.sweep_id}, which it is part of, is paused."
    return why(run, waits(reader).get(run.id), reader)


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
        rows.append(
            [
                escape(name),
                f"<strong>{shown}</strong>" if changed else shown,
                escape((fields[name].description or "") if name in fields else ""),
            ]
        )
    return table(["Setting", "Value", "What it means"], rows, caption="The run's settings")


def _downloads(run: Run) -> None:
    """Show the button that opens what a run can be had as: a report, tables, and a bundle once it has ended."""
    by = current_user.whoever()

    def curves() -> Table:
        with Reader.open(Home.find()) as reader:
            return points_table(reader, [run.id])

    download(
        f"run-{run.id}",
        key=f"run-{run.id}",
        report=lambda: run_report(run.id, by),
        tables={"Curves": curves, "Settings": settings_of(run)},
        runs=[] if run.active else [run.id],
    )
