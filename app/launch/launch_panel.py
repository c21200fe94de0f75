"""The box beside the form: what the run will take, its name, a link to the form as it stands, and the button."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import streamlit as st

from app.actions import queue_actions, sweep_forecast
from app.actions.submit import PendingLaunch, order
from app.launch import quota_summary, sweep_form
from app.launch.experiment_picker import FIRST, reaches
from app.launch.resource_summary import caveats, taken
from app.launch.run_options import launch_options
from app.links.launch import LAUNCH, as_path, changes_of, launch_query
from app.ui import current_user, dialogs, permissions
from app.ui.html import as_text
from app.ui.widgets import PAGES, show_facts
from engine.config import Config
from engine.errors import DeviceError
from engine.experiment.definition import Experiment
from engine.launch_options import Terms
from engine.registry import experiment
from engine.sweep.plan import SweepOrder
from engine.system.machine import demand, machine


def first_visit() -> None:
    """Offer a run that ends within half a minute and needs nothing."""
    found = experiment(FIRST[0])
    preset = found.preset(FIRST[1])
    with st.container(border=True):
        st.header("Start here", anchor=False)
        st.write(
            as_text(
                f"No run has been launched in this lab yet. {found.title}, preset {FIRST[1]}: "
                f"{preset.sentence} {preset.takes} {reaches(preset)}"
            )
        )
        _first_run(found)


def newcomer() -> None:
    """Say on the Home page of a lab without a run what to do first."""
    found = experiment(FIRST[0])
    with st.container(border=True):
        st.header("Start here", anchor=False)
        st.write(
            as_text(
                "No run has been launched in this lab yet, so there is nothing to watch or to compare. "
                f"Begin with the smallest one: {FIRST[1]} {found.title} needs no network, ends within half a "
                "minute, and draws its curves while it trains."
            )
        )
        with st.container(horizontal=True, vertical_alignment="center"):
            _first_run(found)
            st.page_link(PAGES["launch"], label="Look at all experiments")


def _first_run(found: Experiment) -> None:
    if st.button(f"Run {FIRST[1]} {found.title}", type="primary", key="first-visit", **permissions.control("launch")):
        order(PendingLaunch(found.name, FIRST[1], found.configure(FIRST[1])))


def launchpad(
    found: Experiment, preset: str | None, config: Config | None, values: Mapping[str, Any], problems: Mapping[str, str]
) -> None:
    """Show what the run, or each run of a sweep, will take and the button that launches it."""
    with st.container(border=True):
        st.header("What it takes", anchor=False)
        takes = st.container()
        draft = sweep_form.fold(found, values)
        name_of = "run" if draft is None else "sweep"
        title = st.text_input(
            f"Name of the {name_of} (optional)", key="launch.title", placeholder="what you want to find out"
        )
        asked = launch_options(of_sweep=draft is not None)
        with takes:
            configs = (
                ([config] if config else [])
                if draft is None
                else [cell.config for cell in draft.plan.cells]
                if draft.plan
                else []
            )
            ready = _shows_demand(configs) and quota_summary.allows(
                [demand(each, machine()) for each in configs], asked
            )
            if ready and draft is None and config:
                queue_actions.show_prospect(
                    found.name, config.model_dump(mode="json"), demand(config, machine()), asked
                )
            if ready and draft and draft.plan:
                sweep_forecast.before_launch(found.name, draft.plan, draft.exclusive, asked)
            if draft is None and config is None:
                count = len(problems)
                st.write(
                    f"{count} {'setting breaks' if count == 1 else 'settings break'} a rule; the sentence "
                    "stands beside it."
                )
            if draft is None and "" in problems:
                st.error(as_text(problems[""]))
        label = f"Launch {sweep_form.count_of(draft.plan)}" if draft and draft.plan else "Launch"
        if st.button(label, type="primary", disabled=not ready, width="stretch", key="launch"):
            _launch(found, preset, config, values, draft, title, asked)
        _footer(found, preset, values)


def _launch(
    found: Experiment,
    preset: str | None,
    config: Config | None,
    values: Mapping[str, Any],
    draft: sweep_form.Draft | None,
    title: str,
    asked: Terms,
) -> None:
    """Order what the form holds; a preset whose settings were changed is no longer the one that the run began as."""
    kept = values if draft is None else draft.base
    changed = preset is not None and bool(changes_of(found, preset, kept))
    began_as = None if changed else preset
    if draft:
        order(
            SweepOrder(
                found.name,
                began_as,
                draft.base,
                draft.grid,
                draft.seeds,
                title,
                draft.draw,
                draft.exclusive,
                draft.stop_after,
                asked,
            )
        )
    elif config:
        order(PendingLaunch(found.name, began_as, config, title, asked))


def _shows_demand(configs: Sequence[Config]) -> bool:
    """Show what the machine gives to the largest of some runs; return whether there are any and all can run here."""
    here = machine()
    try:
        asked = [(demand(config, here), config) for config in configs]
    except DeviceError as error:
        st.error(as_text(str(error)))
        return False
    if not asked:
        return False
    most, config = max(asked, key=lambda pair: (pair[0].ranks * pair[0].threads_per_rank, pair[0].gpus))
    if len({(each.ranks, each.threads_per_rank, each.gpus) for each, _ in asked}) > 1:
        st.caption("The largest of the runs:")
    show_facts([(label, escape(value)) for label, value in taken(config, most, here)])
    for sentence in caveats(config, most, here):
        st.caption(as_text(sentence))
    return True


def _footer(found: Experiment, preset: str | None, values: Mapping[str, Any]) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        with st.popover("Link to this form", type="tertiary"):
            st.caption("Whoever opens this address finds the form filled as it is now.")
            st.code(as_path(LAUNCH, launch_query(found, preset, values)), language=None, wrap_lines=True)
        if who := current_user.name():
            if not current_user.has_account() and st.button("Change name", type="tertiary"):
                dialogs.open_soon(current_user.ask_name, "Runs that you start from now on carry the new name.", "Save")
            st.caption(f"Launches as {as_text(who)}.")
