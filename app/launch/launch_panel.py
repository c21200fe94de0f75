"""The box beside the form: the resources of the run, its name, a link to the form, and the launch button."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import streamlit as st

from app.actions import queue_actions, submit, sweep_forecast
from app.actions.submit import run_on, start_on_cluster
from app.core.formatting import duration
from app.launch import resource_summary, sweep_form
from app.launch.experiment_picker import FIRST, reaches, ready_sweep, stated_run_s
from app.launch.resource_summary import caveats, resources
from app.links.launch import LAUNCH, as_path, target_query
from app.ui import current_user, dialogs
from app.ui.html import as_text
from app.ui.run_state import place_in_words
from app.ui.store_access import message_of
from app.ui.widgets import PAGES, page_address, say_reach, show_facts
from engine.analysis.total_work import unreached, unreached_in
from engine.cluster.targets import machine_for
from engine.config import Config
from engine.errors import ConfigError, DeviceError
from engine.experiment import Experiment
from engine.home import Home
from engine.launch_options import LONGEST_S, MOST_RETRIES, PRIORITIES, USUAL, LaunchOptions
from engine.registry import experiment, is_ours
from engine.script.command import Command
from engine.store import Launch
from engine.store.records import Demand
from engine.sweep.plan import cautions
from engine.system.machine import demand


def first_visit() -> None:
    """Offer a run that takes under half a minute and needs no network."""
    found = experiment(FIRST[0])
    preset = found.preset(FIRST[1])
    with st.container(border=True):
        st.header("Start here", anchor=False)
        st.write(
            as_text(
                f"No runs in this lab yet. {found.title}, preset {FIRST[1]}: "
                f"{preset.sentence} {preset.takes} {reaches(preset)}"
            )
        )
        _first_run(found)


def newcomer() -> None:
    """Show the first steps on the Home page of a lab without runs."""
    found = experiment(FIRST[0])
    with st.container(border=True):
        st.header("Start here", anchor=False)
        st.write(
            as_text(
                "Parallab runs distributed-training experiments on this machine, plots them live and compares them. "
                f"No runs in this lab yet: start with {FIRST[1]} {found.title}, which needs no network and takes "
                "under half a minute."
            )
        )
        with st.container(horizontal=True, vertical_alignment="center"):
            _first_run(found)
            st.page_link(PAGES["launch"], label="All experiments")
            st.page_link(PAGES["docs"], label="First hour: guided steps", query_params={"page": "first-hour"})
            st.page_link(PAGES["exercises"], label="Exercises: predict, run, compare")
        with st.container(horizontal=True, vertical_alignment="center"):
            own_script("To train with a script of your own, paste the command that starts it.")


def own_script(before: str = "") -> None:
    """Show the link to the form of a person's own command, after some words; nothing to those who may launch none."""
    if not current_user.may("run commands"):
        return
    if before:
        st.write(before)
    st.page_link(
        PAGES["launch"], label="Your own script: paste its command", query_params={"command": ""}, width="content"
    )


def _first_run(found: Experiment) -> None:
    label = f"Run {FIRST[1]} {found.title}"
    if submit.button(label, "first-visit", type="primary", **current_user.control("launch")):
        submit.submit(Launch(found.name, found.configure(FIRST[1]).model_dump(mode="json"), preset=FIRST[1]))


@dataclass(frozen=True)
class LaunchForm:
    """The content of the launch form: an experiment's, or that of a person's own command."""

    definition: Experiment
    config: Config | None
    """The checked settings; None if some are invalid."""
    values: Mapping[str, Any]
    problems: Mapping[str, str]
    query: Mapping[str, str | list[str]]
    """The query of the link that fills the form with these values."""
    preset: str | None = None
    command: Command | None = None
    trouble: str = ""
    """Why it can't be launched besides its settings, as a sentence."""
    cloned_from: int | None = None
    """The run that the settings came from."""

    def launch(self, config: Config, **more: Any) -> Launch:
        """Return the launch of a run with these settings; `more` are the launch's other fields."""
        settings = config.model_dump(mode="json")
        about = {"preset": self.preset, "command": self.command, "cloned_from": self.cloned_from}
        return Launch(self.definition.name, settings, **about | more)


def launchpad(form: LaunchForm) -> None:
    """Show the resources of the run, or of each run of a sweep, and the launch button."""
    found, config = form.definition, form.config
    with st.container(border=True):
        st.header("Resources", anchor=False)
        at = run_on(USUAL)
        draft = sweep_form.fold(form.definition, form.values, form.command)
        above, naming, action, below = st.container(), st.container(), st.container(), st.container()
        takes = above if draft is None else below  # the form of a sweep is long: its button comes first
        name_of = "Run" if draft is None else "Sweep"
        ready_made = ready_sweep(draft.sweep) if draft else None
        usual = ready_made.question if ready_made else ""
        title = naming.text_input(
            f"{name_of} name (optional)", key="launch.title", placeholder=usual or 'e.g. "Does batch size matter?"'
        )
        asked = launch_options(draft is not None, at)
        with takes:
            configs = (
                ([config] if config else [])
                if draft is None
                else [cell.config for cell in sweep_forecast.with_warm_up(draft.plan, draft.sweep.timing)]
                if draft.plan
                else []
            )
            demands = _shown_demands(configs, asked)
            ready = bool(demands) and resource_summary.allows(demands, asked)
            if ready:
                _show_cautions(
                    cautions(found.name, draft.plan, asked.max_run_time_s)
                    if draft and draft.plan
                    else unreached(found, configs[0], asked.max_run_time_s)
                )
            if ready and draft is None and config and not asked.target:
                wanted = form.launch(config, owner=current_user.whoever(), terms=asked, demand=demands[0])
                expected = queue_actions.show_prospect(wanted)
                if expected:
                    for sentence in unreached_in(config, expected.execution_s or expected.median, asked.max_run_time_s):
                        st.caption(as_text(sentence))
            if ready and draft and draft.plan:
                sweep_forecast.before_launch(draft.sweep, draft.plan, asked, stated_run_s(draft.sweep))
            if ready and asked.target:
                start_on_cluster(asked, len(demands))
            _show_problems(form, of_sweep=draft is not None)
        allowed = current_user.control(
            "launch" if draft is None else "launch sweep",
            disabled=not ready or bool(form.trouble),
            runs_command=form.command is not None or not is_ours(found.name),
        )
        # No number of runs: a press right after typing a value launches that value, which the label can't show yet.
        label = "Launch" if draft is None else "Launch sweep"
        with action:
            pressed = submit.button(label, "launch", type="primary", width="stretch", **allowed)
        if pressed:
            _launch(form, draft, name=title.strip() or usual, terms=asked)
        _footer(form, asked)


def _show_problems(form: LaunchForm, *, of_sweep: bool) -> None:
    """Say why the form can't be launched; a sweep's section says what is wrong with its settings."""
    if form.config is None and not of_sweep:
        count = len(form.problems)
        st.write(
            "1 invalid setting: see the marked field."
            if count == 1
            else f"{count} invalid settings: see the marked fields."
        )
    if "" in form.problems and not of_sweep:
        st.error(as_text(form.problems[""]))
    if form.trouble:
        st.write(as_text(form.trouble))


def _show_cautions(sentences: Sequence[str]) -> None:
    for sentence in sentences:
        st.markdown(f":orange-badge[Caution] {as_text(sentence)}")


def _launch(form: LaunchForm, draft: sweep_form.Draft | None, **more: Any) -> None:
    """Launch what the form holds; `more` are the other fields of the launch."""
    if draft:
        submit.submit(
            replace(
                draft.sweep,
                shared=replace(draft.sweep.shared, preset=form.preset, cloned_from=form.cloned_from, **more),
            )
        )
    elif form.config:
        submit.submit(form.launch(form.config, **more))


def _shown_demands(configs: Sequence[Config], terms: LaunchOptions) -> list[Demand]:
    """Show the resources of the largest of some runs; return those of each, or none if some run can't run there."""
    try:
        here = machine_for(Home.find(), terms)
        asked = [(demand(config, here), config) for config in configs]
    except (ConfigError, DeviceError) as error:
        st.error(as_text(message_of(error)))
        return []
    if not asked:
        return []
    most, config = max(asked, key=lambda pair: (pair[0].ranks * pair[0].threads_per_rank, pair[0].gpus))
    if len({(each.ranks, each.threads_per_rank, each.gpus) for each, _ in asked}) > 1:
        st.caption("Largest run:")
    show_facts(resources(config, most, here))
    for sentence in caveats(config, most, here):
        st.caption(as_text(sentence))
    return [each for each, _ in asked]


def _footer(form: LaunchForm, terms: LaunchOptions) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        with st.popover("Link to this form", type="tertiary"):
            st.caption("Opens the form with its current settings.")
            address = page_address(as_path(LAUNCH, {**form.query, **target_query(terms)}))
            st.code(address, language=None, wrap_lines=True)
            say_reach(address)
        if who := current_user.name():
            if not current_user.has_account() and st.button("Change name", type="tertiary"):
                dialogs.open_soon(current_user.ask_name, "New runs will use the new name.", "Save")
            st.caption(f"Launching as {as_text(who)}.")


# ------------------------------------------------------------------------------------------------------------------
# The section of the launch form with the options of a run, or of each run of a sweep: priority, sharing, limits.

OVERSUBSCRIBE = (
    "Starts without waiting for free cores, on cores that other runs hold, and is pinned to none; GPUs are never "
    "shared. Timings of all these runs are not valid for speed comparisons."
)
HUNG = (
    "Ends the run as failed, with the cause, when none of its ranks has continued for 10 s or for 20 of its steps, "
    "whichever is longer. Otherwise a hung run is only reported, on its page and as a notification."
)

_PRIORITY = "launch.priority"


def launch_options(of_sweep: bool = False, at: LaunchOptions = USUAL) -> LaunchOptions:
    """Show the section, and below it the options that differ from the defaults; return the options, with where to run
    as in `at`.
    """
    with st.expander("Priority, sharing and limits"):
        offered = PRIORITIES if current_user.may("prefer") else PRIORITIES[:-1]
        if st.session_state.get(_PRIORITY, offered[0]) not in offered:
            del st.session_state[_PRIORITY]
        if of_sweep:
            st.caption("Applies to each run of the sweep.")
        words = "Higher priority starts first, regardless of launch time." + (
            "" if offered == PRIORITIES else " Only admins can set high priority."
        )
        priority = st.segmented_control("Priority", offered, default="normal", key=_PRIORITY, required=True, help=words)
        shares = (
            False
            if at.target
            else st.toggle("Share cores with other runs", key="launch.oversubscribe", help=OVERSUBSCRIBE)
        )
        longest = st.number_input(
            "Time limit (s)",
            min_value=1.0,
            max_value=LONGEST_S,
            value=None,
            step=60.0,
            format="%g",
            placeholder="none",
            key="launch.max_run_time_s",
            help=(
                "Maximum run time, including start-up; then the run is cancelled and its recorded data kept. "
                "Empty: no limit."
            ),
            persist_state="session",
        )
        retries = st.number_input(
            "Retries if lost",
            min_value=0,
            max_value=MOST_RETRIES,
            value=0,
            step=1,
            key="launch.max_retries",
            help="How many times a lost run (worker killed or machine down) is requeued automatically. "
            "It resumes from its last checkpoint, if any.",
            persist_state="session",
        )
        ends = st.toggle("End if it hangs", key="launch.end_when_hung", help=HUNG)
    found = replace(
        at,
        priority=priority,
        oversubscribe=shares,
        max_run_time_s=longest,
        max_retries=int(retries),
        end_when_hung=ends,
    )
    if text := in_words(found):
        st.caption(f"Options: {text}.")
    return found


def in_words(terms: LaunchOptions) -> str:
    """Return the options that differ from the defaults, in words."""
    retries = (
        f"{terms.max_retries} {'retry' if terms.max_retries == 1 else 'retries'} if lost" if terms.max_retries else ""
    )
    limit = f"time limit {duration(terms.max_run_time_s)}" if terms.max_run_time_s else ""
    ends = "ended if it hangs" if terms.end_when_hung else ""
    texts = [
        f"on {place_in_words(terms)}" if terms.target else "",
        f"{terms.priority} priority" if terms.priority != "normal" else "",
        "shared cores" if terms.oversubscribe else "",
        limit,
        retries,
        ends,
    ]
    return ", ".join(filter(None, texts))
