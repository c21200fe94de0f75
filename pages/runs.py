"""Runs: the table of all runs of the lab, running ones first, updated live; its address holds the complete view."""

import time

import streamlit as st

from app.actions.annotations import view_menu
from app.actions.queue_actions import waits
from app.export.view_report import here
from app.links import addresses
from app.runs import page_table, query
from app.runs.import_dialog import import_button
from app.runs.page_table import show_queue
from app.ui import components, current_user, widgets
from app.ui.store_access import reading

# The table of a large store is drawn again at most this soon, and after this many times the time it takes.
SOONEST_MS, PER_SECOND = 1_000, 20


@addresses.fragment
def listing() -> None:
    """Show the runs, and rerun when one of them changes."""
    began = time.monotonic()
    current_user.carry_out_waiting()
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        with st.container(horizontal=True, vertical_alignment="center", width="content"):
            st.title("Runs", anchor=False, width="content")
            for name, label in (("sweep", "Sweeps"), ("duel", "Duels")):
                st.page_link(widgets.PAGES[name], label=label, width="content")
        saving = st.container(horizontal=True, vertical_alignment="center", width="content")
    with reading(lambda: components.pulse(-1)) as reader:
        token = reader.runs.token()
        widgets.runner_banner(reader)
        view = query.choose(reader)
        with saving:
            view_menu(reader, "runs", here("").partition("?")[2] or "show=all", "results")
        if view.matching is None:
            st.caption("Fix the filter to show the table.")
        else:
            waiting = waits(reader)
            found = page_table.find(reader, view)
            if found.rows:
                page_table.show(reader, view, found, waiting)
            else:
                page_table.nothing(reader, view)
                import_button()
            show_queue(waiting, reader.queue.count(), reader.queue.count_held())
        is_active = bool(reader.runs.count(statuses=query.GROUPS["active"]))
    took_ms = 1_000 * (time.monotonic() - began)
    every_ms = round(max(SOONEST_MS if is_active else 2.5 * SOONEST_MS, PER_SECOND * took_ms))
    components.pulse(token, every_ms=every_ms, early_ms=SOONEST_MS)


listing()
