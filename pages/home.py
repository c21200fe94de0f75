"""Home: what is on, what has ended since one last looked, how busy the machine is, who is ahead, and what was
reproduced.
"""

from collections.abc import Mapping

import streamlit as st

from app.actions import saved_views
from app.actions.submit import carry_out_waiting
from app.home import last_visit, summary
from app.launch.launch_panel import newcomer
from app.links.launch import ASKED
from app.ui import components, current_user, permissions, widgets
from app.ui.html import Slot, slot
from app.ui.store_access import reading
from engine.home import Home
from engine.store import Reader

VIEWS_SHOWN = 6  # the others are folded

if any(name in st.query_params for name in ASKED):  # links to the launch form once led here
    st.switch_page(
        widgets.PAGES["launch"],
        query_params={name: st.query_params.get_all(name) for name in ASKED if name in st.query_params},
    )
carry_out_waiting()
with reading(lambda: components.pulse(-1)) as first:
    last_visit.look(first)
    is_fresh = first.runs.count() == 0


@st.fragment
def page() -> None:
    """Show the lab, and again when something changes that no slot holds."""
    with reading(lambda: components.pulse(-1)) as reader:
        since = last_visit.since()
        found = summary.standing(Home.find(), since)
        widgets.runner_banner(reader)
        if reader.runs.count():
            lab({name: slot(name, content) for name, content in found.slots.items()}, reader)
        else:
            newcomer()
            st.header("Machine", anchor=False)
            st.html(slot("home-machine", found.slots["home-machine"]))
    components.home_standing(since, found.token, found.version)


def lab(slots: Mapping[Slot, str], reader: Reader) -> None:
    """Show a lab that has runs."""
    left, right = st.columns([5, 3], gap="large")
    with left:
        st.header("On now", anchor=False)
        st.html(slots["home-now"])
        with st.container(horizontal=True, vertical_alignment="center"):
            st.header(
                "New since you last looked" if current_user.name() else "Ended within the last day",
                anchor=False,
                width="stretch",
            )
            last_visit.news_actions()
        st.html(slots["home-news"])
    with right:
        st.header("Machine", anchor=False)
        st.html(slots["home-machine"])
        st.header("Saved views", anchor=False)
        saved(reader)
    st.header("Best results", anchor=False)
    st.html(slots["home-best"])
    st.header("Published figures", anchor=False)
    st.html(slots["home-published"])


def saved(reader: Reader) -> None:
    """List the saved views, one's own first; where there is none, say how one comes to be."""
    who = current_user.name()
    found = sorted(reader.views.find(), key=lambda view: view.owner != who)
    if not found:
        st.caption("No view has been saved yet: Save view on the Compare page keeps one here under a name.")
    for view in found[:VIEWS_SHOWN]:
        saved_views.entry(view, with_page=True)
    if found[VIEWS_SHOWN:]:
        with st.expander(f"{len(found) - VIEWS_SHOWN} more"):
            for view in found[VIEWS_SHOWN:]:
                saved_views.entry(view, with_page=True)


with st.container(horizontal=True, vertical_alignment="center"):
    st.title("Home", anchor=False, width="stretch")
    if st.button(
        "Launch a run", key="home.launch", type="secondary" if is_fresh else "primary", **permissions.control("launch")
    ):
        st.switch_page(widgets.PAGES["launch"])
page()
