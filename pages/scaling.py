"""Scaling: selected runs plotted against a number of ranks or splits (`?runs=3,5-9&along=trainers`)."""

import streamlit as st

from app.export.view_report import here, view_downloads
from app.links import addresses
from app.links.addresses import read_run_ids
from app.links.compare import ids_text
from app.report import page_capture
from app.scaling.breakdown import MOST_RUNS, where_time_went
from app.scaling.staleness import records_staleness, staleness
from app.scaling.target import to_a_target
from app.scaling.view import scaling
from app.sweep.header import to_scaling
from app.ui import widgets
from app.ui.html import as_text
from app.ui.store_access import reading
from app.ui.time_difference import disturbed_choice, show_unequal_work
from engine.analysis.scaling.findings import of_runs
from engine.analysis.scaling.scaling_data import by_values, count_fields, differing
from engine.errors import EngineError

NEWEST = 10
VIEWS = ("Scaling", "Time breakdown", "Staleness")

st.title("Scaling", anchor=False)
st.text(
    "Time, speed-up, efficiency and staleness by number of ranks or splits, for any finished runs. Each sweep's "
    "page has the same views for its runs."
)
with reading() as reader:
    widgets.runner_banner(reader)
text = st.text_input(
    "Runs",
    placeholder="12, 15-18",
    **addresses.kept("runs", ""),
    help="Run numbers (comma-separated) and ranges, such as 12, 15-18.",
)
if not text:
    with reading() as reader:
        has_runs = reader.runs.count() > 0
        newest, count = reader.sweeps.recent(limit=NEWEST), reader.sweeps.count()
    widgets.empty(
        "No runs selected. Enter run numbers above, as the Runs page lists them, or open a sweep."
        if has_runs
        else "No runs selected. Launch a sweep over the number of ranks to see its speed-up here.",
        "All runs" if has_runs else "Launch a sweep",
        "runs" if has_runs else "launch",
    )
    if newest:
        st.header("Latest sweeps", anchor=False)
        st.html(to_scaling(newest))
        st.page_link(widgets.PAGES["sweep"], label="All sweeps" if count == 1 else f"All {count:,} sweeps")
    st.stop()
try:
    ids = read_run_ids(text, MOST_RUNS)
except EngineError as error:
    st.error(as_text(str(error)))
    st.stop()
with reading() as reader:
    known = reader.runs.some(ids)
    if gone := sorted(set(ids) - {run.id for run in known}):
        st.warning(f"Runs not found (possibly deleted): {', '.join(map(str, gone[:10]))}. The other runs are shown.")
    finished = [run for run in known if run.status == "finished"]
    if len(finished) < len(known):
        st.caption(f"{len(known) - len(finished)} of these runs have not finished and are omitted.")
    varied = differing(finished)
    counts = [name for name in count_fields() if name in varied]
    with st.container(horizontal=True, vertical_alignment="bottom"):
        along = (
            st.selectbox("X-axis", counts, width=220, **addresses.kept("along", counts[0], counts))
            if len(counts) > 1
            else next(iter(counts), None)
        )
        others = [name for name in varied if name != along]
        line = (
            st.selectbox(
                "Group by",
                others,
                index=0 if len(others) == 1 else None,
                key="lines",
                placeholder="No grouping",
                bind="query-params",
                width=220,
            )
            if others
            else None
        )
        views = VIEWS if records_staleness((run.experiment for run in finished), finished, reader) else VIEWS[:-1]
        view = st.segmented_control("View", views, required=True, **addresses.kept("view", VIEWS[0], views))
        leaving = st.container(width="content")
    with page_capture.keeping() as shown:
        page_capture.facts("Shown", [("X-axis", along or ""), ("Group by", line or "")])
        groups = by_values(filter(None, (along, line)), finished)
        widgets.say_withheld(reader, [run.id for run in finished])
        show_unequal_work(groups, reader)
        whole = view != VIEWS[2] and disturbed_choice(groups, reader)
        found = of_runs(finished, reader, along, line, with_disturbed=whole) if view != VIEWS[2] else ""
        if view == VIEWS[2]:
            staleness(finished, reader, "chosen", [line] if line else [])
        elif isinstance(found, str):
            st.write(found)
            page_capture.words([found])
        elif view == VIEWS[1]:
            where_time_went(found, reader, "chosen")
        else:
            scaling(found, finished, "chosen")
            to_a_target(found, finished, reader, "chosen")
    if finished:
        with leaving:
            view_downloads(
                "scaling",
                f"{view}: runs {ids_text([run.id for run in finished])}",
                here("/scaling"),
                shown,
                finished,
                key="scaling",
            )
