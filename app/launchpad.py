"""The box beside the form: what the run will take, its name, a link to the form as it stands, and the button."""

from collections.abc import Mapping
from html import escape
from typing import Any

import streamlit as st

from app import person
from app.choosing import FIRST, reaches
from app.launching import Order, order
from app.links import as_path, changes_of, launch_query
from app.markup import as_text
from app.parts import show_facts
from app.takes import caveats, taken
from engine.config import Config
from engine.errors import DeviceError
from engine.registry import Experiment, experiment
from engine.runtime.machine import demand, machine


def first_visit() -> None:
    """Offer a run that ends within half a minute and needs nothing."""
    found = experiment(FIRST[0])
    preset = found.preset(FIRST[1])
    with st.container(border=True):
        st.subheader("Start here", anchor=False)
        st.write(as_text(f"No run has been launched in this lab yet. {found.title}, preset {FIRST[1]}: {preset.sentence} {preset.takes} {reaches(preset)}"))
        if st.button(f"Run {FIRST[1]} {found.title}", type="primary", key="first-visit"):
            order(Order(found.name, FIRST[1], found.configure(FIRST[1])))


def launchpad(found: Experiment, preset: str | None, config: Config | None, values: Mapping[str, Any], problems: Mapping[str, str]) -> None:
    """Show what the run will take and the button that launches it."""
    with st.container(border=True):
        st.subheader("What it takes", anchor=False)
        ready = config is not None and _shows_demand(config)
        if config is None:
            count = len(problems)
            st.write(f"{count} {'setting breaks' if count == 1 else 'settings break'} a rule; the sentence stands beside it.")
        if "" in problems:
            st.error(as_text(problems[""]))
        title = st.text_input("Name of the run (optional)", max_chars=120, key="launch.title", placeholder="what you want to find out")
        if st.button("Launch", type="primary", disabled=not ready, width="stretch", key="launch") and config is not None:
            changed = preset is not None and bool(changes_of(found, preset, values))
            order(Order(found.name, None if changed else preset, config, title))
        _footer(found, preset, values)


def _shows_demand(config: Config) -> bool:
    """Show what the machine gives to a run of this config; return whether it can run here at all."""
    try:
        asked = demand(config, machine())
    except DeviceError as error:
        st.error(as_text(str(error)))
        return False
    show_facts([(label, escape(value)) for label, value in taken(config, asked, machine())])
    for sentence in caveats(config, asked, machine()):
        st.caption(as_text(sentence))
    return True


def _footer(found: Experiment, preset: str | None, values: Mapping[str, Any]) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        with st.popover("Link to this form", type="tertiary"):
            st.caption("Whoever opens this address finds the form filled as it is now.")
            st.code(as_path("/", launch_query(found, preset, values)), language=None, wrap_lines=True)
        if who := person.name():
            if st.button("Change name", type="tertiary"):
                person.ask("Runs that you start from now on carry the new name.", "Save")
            st.caption(f"Launches as {as_text(who)}.")
