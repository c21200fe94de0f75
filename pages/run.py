"""Run: one run by its permalink (`?run=ID`), updated live while it runs; `?latest=FILTER` follows the newest one."""

import streamlit as st

from app.links import addresses
from app.run import live_update
from app.run.header import heading
from app.run.overview import UNFOLDED
from app.run.sections import SECTIONS, tabs
from app.ui import components, widgets
from app.ui.html import as_text, run_link
from app.ui.store_access import invalid_link, reading
from engine.errors import FilterError
from engine.filter.syntax import LONGEST

wanted = st.query_params.get("run", "")
if st.query_params.get("section") == live_update.MACHINE:  # addresses of earlier versions
    st.session_state[UNFOLDED] = wanted


@addresses.fragment
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
        widgets.say_withheld(reader, [run_id])
        SECTIONS[opened](run, reader)
        if opened == "Overview" and st.session_state.get("machine"):
            opened = live_update.MACHINE
        frame = live_update.frame(run, reader, opened, picture)
    if run.status == "queued":
        components.pulse(token)  # it waits for other runs
    else:
        may_continue = run.reported and run.status == "lost"
        components.standing(run.id, opened, frame, run.version, active=run.active or may_continue)


@addresses.fragment
def follow(text: str) -> None:
    """Show the newest run that a filter matches, and the next one as soon as it is queued."""
    run_id, wrong = 0, ""
    with reading(lambda: components.pulse(-1, latest=text)) as reader:
        try:
            run_id = reader.runs.newest(reader.fields.filter(text)) or 0
        except FilterError as error:
            wrong = str(error)
    components.pulse(run_id, latest=text, active=not wrong)
    of = f"the filter {text.strip()}" if text.strip() else "the lab"
    if run_id:
        st.caption(as_text(f"The newest run of {of}; the next one takes its place automatically."))
        page(run_id)
    else:
        st.title("Newest run", anchor=False)
        st.write(as_text(wrong or f"No run of {of} yet. It appears here once it is queued."))


latest = st.query_params.get("latest")
if latest is not None:
    follow(latest[:LONGEST])
elif wanted.isdecimal() and len(wanted) < 18:
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
