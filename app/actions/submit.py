"""From a click to a queued run or sweep: where it is to run, whose it is, and its page."""

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import streamlit as st

from app.links import addresses
from app.ui import current_user
from app.ui.html import as_text
from app.ui.store_access import message_of, reading
from app.ui.widgets import PAGES
from engine.cluster.targets import Cluster, clusters
from engine.duel.launch import DuelLaunch, launch_duel
from engine.errors import ConfigError, EngineError
from engine.home import Home
from engine.launch import launch, resume, retry
from engine.launch_options import LaunchOptions
from engine.store import Launch, SweepLaunch
from engine.sweep.launch import launch_sweep

# ---- From a click to a queued run or sweep: ask for the name if unknown, queue it, and open its page ---------------


@dataclass(frozen=True)
class Again:
    """One click on a run's Resume, or without `resumes` on its Retry."""

    run_id: int
    resumes: bool


Wanted = Launch | SweepLaunch | DuelLaunch | Again
_LAUNCHES = "submit.launches"


@dataclass
class Launches:
    """How many times each button has launched in this session, by its key."""

    times: Counter[str] = field(default_factory=Counter)
    pressed: str = ""

    def count(self) -> None:
        """Count a launch by the button that was pressed last."""
        self.times[self.pressed] += 1


def button(label: str, key: str, **options: Any) -> bool:
    """Show a button that launches. It is another one after each launch, so a press that was made before the browser had
    the answer to the first launches nothing; tools.js takes none meanwhile.
    """
    found = launches()
    times = found.times[key]
    is_pressed = st.button(label, key=f"once.{key}.{times}" if times else f"once.{key}", **options)
    if is_pressed:
        found.pressed = key
    return is_pressed


def launches() -> Launches:
    """Return the launches of this session. Call it before the launch: where the browser has asked for another run of
    the page, any use of the session ends this one.
    """
    found: Launches = st.session_state.setdefault(_LAUNCHES, Launches())
    return found


def submit(wanted: Wanted, *, stays: bool = False) -> None:
    """Run a launch, a resumption or a retry, after asking for the name if it is unknown; a run that `stays` keeps the
    page that it was launched from open.
    """
    verb = ("resume" if wanted.resumes else "retry") if isinstance(wanted, Again) else "launch"
    current_user.require_name(partial(submit, wanted, stays=stays), f"Save and {verb}")
    session, opening = launches(), addresses.opening()
    for left in ("section", "axis"):  # a run's page opens as it does first, not as another run's was left
        st.session_state.pop(left, None)
    try:
        made = _queued(Home.find(), wanted, current_user.whoever())
    except EngineError as error:
        st.error(as_text(message_of(error)))
        return
    session.count()
    if stays:
        st.rerun()
    if isinstance(wanted, SweepLaunch) and wanted.figure:
        opening.go(PAGES["figures"], {"figure": wanted.figure.partition("/")[0]})
    page = {SweepLaunch: "sweep", DuelLaunch: "duel"}.get(type(wanted), "run")
    opening.go(PAGES[page], {page: str(made)})


def _queued(home: Home, wanted: Wanted, owner: str) -> int:
    """Queue what was asked for, and return its id."""
    match wanted:
        case Launch():
            return launch(home, replace(wanted, owner=owner))
        case SweepLaunch():
            return launch_sweep(home, replace(wanted, shared=replace(wanted.shared, owner=owner)))
        case DuelLaunch():
            return launch_duel(home, replace(wanted, owner=owner))
        case Again():
            return (resume if wanted.resumes else retry)(home, wanted.run_id, owner=owner)


def form_is_closed(command: str) -> bool:
    """Return whether the person lacks the permission for a command; then show why, whom to ask, and other pages in
    place of its form.
    """
    if (refusal := current_user.why_not(command)) is None:
        return False
    with reading() as reader:
        admins = [each.name for each in reader.people.everyone() if each.role == "admin" and each.active]
    with st.container(border=True):
        st.write(as_text(refusal))
        st.write(as_text(f"Ask an admin for the member role: {', '.join(admins)}."))
        st.page_link(PAGES["runs"], label="View runs")
    return True


# ------------------------------------------------------------------------------------------------------------------
# Where a run, or each run of a sweep or duel, is to run: on this machine or a cluster, and on how many nodes.

HERE = "This machine"
TARGET, NODES = "launch.target", "launch.nodes"
"""Keys of the controls, which the launch form and the duel form share."""
_GONE = "launch.target.gone"
"""A chosen cluster that the lab does not have, until another choice."""


def run_on(terms: LaunchOptions) -> LaunchOptions:
    """Show where to run if the lab has clusters, or why they can't be used; return the options with the choice."""
    try:
        offered = clusters(Home.find())
    except ConfigError as error:
        st.error(as_text(f"Runs can start on this machine only. {message_of(error)}"))
        return terms
    chosen = st.session_state.get(TARGET) or ""
    if chosen and chosen not in offered:
        st.session_state[_GONE], st.session_state[TARGET] = chosen, ""
    if gone := st.session_state.get(_GONE):
        st.warning(as_text(f"Cluster {gone} is not in this lab's clusters.toml: choose where to run."))
    if not offered:
        return terms
    st.session_state.setdefault(TARGET, "")
    with st.container(horizontal=True, vertical_alignment="bottom"):
        target = st.segmented_control(
            "Run on",
            ["", *offered],
            format_func=lambda name: name or HERE,
            key=TARGET,
            required=True,
            wrap=True,
            help="A cluster runs it as a job of Slurm, which decides when it starts.",
            on_change=lambda: st.session_state.pop(_GONE, None),
            persist_state="session",
        )
        nodes = _nodes(offered[target]) if target else 1
    return replace(terms, target=target or "", nodes=nodes)


def _nodes(cluster: Cluster) -> int:
    if cluster.nodes == 1:
        return 1
    st.session_state[NODES] = min(st.session_state.get(NODES, 1), cluster.nodes)
    return int(
        st.number_input(
            "Nodes",
            min_value=1,
            max_value=cluster.nodes,
            step=1,
            key=NODES,
            width=120,
            help="Number of nodes that the ranks of a run are spread over.",
            persist_state="session",
        )
    )


def start_on_cluster(terms: LaunchOptions, runs: int = 1) -> None:
    """Say when runs for a cluster start, in place of an estimate."""
    with reading() as reader:
        there = sum(job.cluster == terms.target for job in reader.cluster_jobs.all())
    jobs = f"{there:,} jobs of this lab wait or run" if there > 1 else f"{there or 'no'} job of this lab waits or runs"
    st.caption(as_text(f"Slurm decides when {'it starts' if runs == 1 else 'they start'}; {jobs} there now."))
