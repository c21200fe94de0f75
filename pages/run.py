"""Run: one run by its permalink (`?run=ID`), live while it goes on."""

import streamlit as st

from app.actions.submit import carry_out_waiting
from app.run import live_update
from app.run.header import heading
from app.run.sections import section
from app.ui import components, widgets
from app.ui.html import run_link
from app.ui.store_access import reading
from engine.store import Reader
from engine.store.records import Run

carry_out_waiting()
wanted = st.query_params.get("run", "")
AXES = {"step": "Step", "passes": "Passes", "time": "Time"}


@st.fragment
def page(run_id: int) -> None:
    """Show the run, and again whenever its frame changes; what ticks, and the curves, keep themselves up to date."""
    with (
        reading(lambda: components.pulse(-1, run_id=run_id)) as reader,
        reader.db.snapshot(),
    ):  # what is shown and the frame are of the same moment
        token, run, entry = reader.runs.token(), reader.runs.one(run_id), reader.runs.entry(run_id)
        picture = live_update.has_picture(
            reader.db.home, run_id
        )  # checked after the run's version is read: one drawn later comes with a newer version
        if run.status == "queued":
            widgets.runner_banner(reader)
        heading(run, entry, reader)
        curves(run, reader)
        opened = section(run, reader, picture)
        frame = live_update.frame(run, reader, opened, picture)
    if run.status == "queued":
        components.pulse(token)  # what it waits for are other runs
    else:
        components.standing(run.id, opened, frame, run.version, active=run.active)


def curves(run: Run, reader: Reader) -> None:
    """Show the run's curves, with what they are drawn against and how much noisy ones are smoothed; the address
    holds both.
    """
    axes = [name for name in AXES if name != "passes" or reader.details.counts_passes(run.id)]
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        x = st.segmented_control(
            "Curves against",
            axes,
            key="x",
            default="step",
            required=True,
            format_func=lambda name: AXES[name],
            bind="query-params",
        )
        help_text = (
            "Exponential moving average of noisy curves with many points; the raw line stays visible behind it. "
            "Sums and constants are never smoothed."
        )
        smoothing = st.slider(
            "Smoothing", 0.0, 0.98, 0.9, 0.02, key="smooth", bind="query-params", width=200, help=help_text
        )
    components.curves(run.id, active=run.active, x=x or "step", smoothing=smoothing)


if wanted.isdecimal() and len(wanted) < 18:
    page(int(wanted))
else:
    st.title("Run", anchor=False)
    with reading() as reader:
        newest = reader.runs.find(archived=False, limit=8)
    if wanted:
        st.warning("A link to a run ends in its number, such as /run?run=12.")
    if not newest:
        widgets.empty("No run has been launched yet.", "Launch one", "launch")
    else:
        st.write("Choose a run; these are the newest.")
    for row in newest:
        with st.container(horizontal=True, vertical_alignment="center"):
            widgets.status_badge(row.status)
            st.html(run_link(f"{row.id}: {widgets.title_of(row)}", row.id))
