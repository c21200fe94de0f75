"""Home: running runs, runs that ended since the last visit, machine load, best results and published figures."""

from collections.abc import Mapping

import streamlit as st

from app.actions import annotations
from app.core.assets import at
from app.exercises import catalogue
from app.home import recent, summary
from app.home.recent import experiments_html
from app.launch.launch_panel import newcomer, own_script
from app.links import addresses
from app.links.launch import ASKED
from app.ui import components, current_user, widgets
from app.ui.html import Slot, joined, link, quiet, slot
from app.ui.store_access import reading
from engine.home import Home
from engine.store import Reader

VIEWS_SHOWN = 6  # the others are folded
LEARN = (
    link("First hour: guided steps", at("/docs?page=first-hour")),
    link("Exercises: predict, run, compare", at("/exercises")),
)

if any(name in st.query_params for name in ASKED):  # links to the launch form once led here
    addresses.go(
        widgets.PAGES["launch"],
        {name: st.query_params.get_all(name) for name in ASKED if name in st.query_params},
    )
with reading(lambda: components.pulse(-1)) as first:
    recent.record(first)
    is_fresh = first.runs.count() == 0


@addresses.fragment
def page() -> None:
    """Show the lab; rerun when something outside the slots changes."""
    with reading(lambda: components.pulse(-1)) as reader:
        since = recent.since()
        without = catalogue.unpredicted(reader)
        found = summary.standing(Home.find(), since, without)
        widgets.runner_banner(reader)
        if exercises := catalogue.opened(Home.find(), reader):
            st.html(exercises)
            if without:
                st.html(quiet("Runs of exercises that you have not predicted are left out below."))
        if reader.runs.count():
            st.html(quiet(joined(LEARN, " · ")))
            lab({name: slot(name, content) for name, content in found.slots.items()}, reader)
        else:
            newcomer()
            st.header("Experiments", anchor=False)
            st.html(experiments_html())
    components.home_standing(since, without, found.token, found.version)


def lab(slots: Mapping[Slot, str], reader: Reader) -> None:
    """Show a lab that has runs, in three columns, two or one by the width of the window."""
    with st.container(key="home-columns"):
        with st.container():
            with st.container(border=True):
                st.header("Running", anchor=False)
                st.html(slots["home-now"])
                st.header("Queue", anchor=False)
                st.html(slots["home-queue"])
            with st.container(border=True):
                st.header("Best results", anchor=False)
                st.html(slots["home-best"])
        with st.container(border=True):
            with st.container(key="home-news-head", horizontal=True, vertical_alignment="top"):
                title = "Recent" if recent.is_first() else "New since your last visit"
                st.header(title, anchor=False, width="stretch")
                recent.news_actions()
            st.html(slots["home-news"])
        with st.container(key="home-lab"):
            with st.container(border=True):
                st.header("Machine", anchor=False)
                st.html(slots["home-machine"])
                st.page_link(widgets.PAGES["machine"], label="CPU usage", width="content")
                st.header("Saved views", anchor=False)
                saved(reader)
            with st.container(border=True):
                st.header("Published figures", anchor=False)
                st.html(slots["home-published"])


def saved(reader: Reader) -> None:
    """List the saved views, own views first; without any, say how to save one."""
    who = current_user.name()
    found = sorted(reader.views.find(), key=lambda view: view.owner != who)
    if not found:
        st.caption("No saved views yet. Save view on the Runs or Compare page adds one.")
        with st.container(horizontal=True):
            st.page_link(widgets.PAGES["runs"], label="Runs", width="content")
            st.page_link(widgets.PAGES["compare"], label="Compare runs", width="content")
    for view in found[:VIEWS_SHOWN]:
        annotations.entry(view, with_page=True)
    if found[VIEWS_SHOWN:]:
        with st.expander(f"{len(found) - VIEWS_SHOWN} more"):
            for view in found[VIEWS_SHOWN:]:
                annotations.entry(view, with_page=True)


with st.container(horizontal=True, vertical_alignment="center"):
    st.title("Home", anchor=False, width="stretch")
    if not is_fresh:
        own_script()
    if not is_fresh and st.button("Launch a run", key="home.launch", type="primary", **current_user.control("launch")):
        addresses.go(widgets.PAGES["launch"])
page()
