"""Run: one run by its permalink (`?run=ID`), updated live while it runs."""

import streamlit as st

from app.run import live_update
from app.run.header import heading
from app.run.overview import UNFOLDED
from app.run.sections import SECTIONS, tabs
from app.ui import components, widgets
from app.ui.html import run_link
from app.ui.store_access import invalid_link, reading

wanted = st.query_params.get("run", "")
if st.query_params.get("section") == live_update.MACHINE:  # addresses of earlier versions
    st.session_state[UNFOLDED] = wanted


@st.fragment
def page(run_id: int) -> None:
    """Show the run, and rerun when its frame changes; live values and curves update themselves."""
    with (
        reading(lambda: components.pulse(-1, run_id=run_id)) as reader,
        reader.db.snapshot(),
    ):  # page and frame come from the same snapshot
        token, run, entry = reader.runs.token(), reader.runs.one(run_id), reader.runs.entry(run_id)
        picture = live_update.has_picture(
            reader.db.home, run_id
        )  # checked after the run's version: a later picture has a newer version
        if run.status == "queued":
            widgets.runner_banner(reader)
        opened = heading(run, entry, reader, tabs(run, reader, picture))
        SECTIONS[opened](run, reader)
        if opened == "Overview" and st.session_state.get("machine"):
            opened = live_update.MACHINE
        frame = live_update.frame(run, reader, opened, picture)
    if run.status == "queued":
        components.pulse(token)  # it waits for other runs
    else:
        components.standing(run.id, opened, frame, run.version, active=run.active)


if wanted.isdecimal() and len(wanted) < 18:
    page(int(wanted))
elif wanted:
    invalid_link("run", wanted)
else:
    st.title("Run", anchor=False)
    with reading() as reader:
        newest = reader.runs.find(archived=False, limit=8)
    if not newest:
        widgets.empty("No runs yet. The newest runs appear here.", "Launch a run", "launch")
    else:
        st.write("Choose one of the newest runs.")
    for row in newest:
        with st.container(horizontal=True, vertical_alignment="center"):
            widgets.status_badge(row)
            st.html(run_link(f"{row.id}: {widgets.title_of(row)}", row.id))
