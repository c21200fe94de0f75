"""Runs: every run of the lab, those that are on live and on top."""

import math

import streamlit as st

from app.actions.queue_actions import waits
from app.runs.queue_table import show_queue
from app.runs.row import row
from app.ui import components, current_user, widgets
from app.ui.store_access import reading
from engine.store.records import ALIVE, ENDED, Status

PAGE = 20
GROUPS: dict[str, tuple[Status, ...] | None] = {
    "all": None,
    "on or queued": ("queued", *ALIVE),
    "finished": ("finished",),
    "failed or lost": ("failed", "lost"),
    "cancelled": ("cancelled",),
}

st.title("Runs", anchor=False)


@st.fragment
def listing() -> None:
    """Show the runs, and again whenever one of them has news."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        group = st.segmented_control(
            "Show", list(GROUPS), key="show", default="all", required=True, bind="query-params", wrap=True
        )
        search = st.text_input(
            "Search", key="find", placeholder="name, owner, experiment, tag", bind="query-params", width=260
        )
        mine = st.toggle("Only mine", key="mine", bind="query-params", disabled=current_user.name() is None)
    with reading(lambda: components.pulse(-1)) as reader:
        token = reader.runs.token()
        widgets.runner_banner(reader)
        if sweeps := reader.sweeps.count():
            st.page_link(widgets.PAGES["sweep"], label=f"{sweeps:,} {'sweep' if sweeps == 1 else 'sweeps'} of runs")
        queue = waits(reader)
        show_queue(queue, reader.queue.count(), reader.queue.count_held())
        statuses, owner = GROUPS[group or "all"], current_user.name() if mine else None
        count = reader.runs.count(statuses=statuses, search=search, owner=owner, archived=False)
        page = st.session_state.get("runs.page", 1)
        runs = reader.runs.find(
            statuses=statuses, search=search, owner=owner, archived=False, limit=PAGE, offset=PAGE * (page - 1)
        )
        on = [run for run in runs if run.status not in ENDED]
        for run in on + [run for run in runs if run.status in ENDED]:
            row(run, reader, queue)
    if not count:
        widgets.empty(
            "No run matches." if search or mine or group != "all" else "No run has been launched yet.",
            "Launch one",
            "launch",
        )
    elif count > PAGE:
        st.pagination(math.ceil(count / PAGE), key="runs.page")
    components.pulse(token, every_ms=1_000 if on else 2_500, early_ms=1_000)


listing()
