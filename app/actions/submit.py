"""From a click to a queued run or sweep: ask for the name if unknown, queue it, and open its page."""

from dataclasses import dataclass
from functools import partial

import streamlit as st

from app.ui import current_user
from app.ui.html import as_text
from app.ui.store_access import message_of, reading
from app.ui.widgets import PAGES, go_to_duel, go_to_figure, go_to_run, go_to_sweep
from engine.config import Config
from engine.duel.launch import AGAIN, launch_duel
from engine.duel.spec import Duel
from engine.errors import EngineError
from engine.home import Home
from engine.launch import launch, resume, retry
from engine.launch_options import USUAL, LaunchOptions
from engine.sweep.launch import SweepOrder


@dataclass(frozen=True)
class PendingLaunch:
    """One launch that was clicked."""

    experiment: str
    preset: str | None
    config: Config
    title: str = ""
    terms: LaunchOptions = USUAL
    stays: bool = False
    """Whether to stay on the page that it was launched from."""


@dataclass(frozen=True)
class Resumption:
    """One click on a run's Resume."""

    run_id: int


@dataclass(frozen=True)
class Repetition:
    """One click on a run's Retry."""

    run_id: int


@dataclass(frozen=True)
class DuelOrder:
    """One launch of a duel."""

    duel: Duel
    title: str = ""
    terms: LaunchOptions = AGAIN


Wanted = PendingLaunch | SweepOrder | DuelOrder | Resumption | Repetition


def submit(wanted: Wanted) -> None:
    """Run a launch, a resumption or a retry, after asking for the name if it is unknown."""
    verb = {Resumption: "resume", Repetition: "retry"}.get(type(wanted), "launch")
    current_user.require_name(partial(submit, wanted), f"Save and {verb}")
    home, owner = Home.find(), current_user.whoever()
    try:
        if isinstance(wanted, SweepOrder):
            found = wanted.launch(home, owner=owner)
        elif isinstance(wanted, DuelOrder):
            found = launch_duel(home, wanted.duel, owner=owner, title=wanted.title, terms=wanted.terms)
        elif isinstance(wanted, PendingLaunch):
            found = launch(
                home,
                wanted.experiment,
                wanted.config,
                owner=owner,
                preset=wanted.preset,
                title=wanted.title,
                terms=wanted.terms,
            )
        else:
            found = (resume if isinstance(wanted, Resumption) else retry)(home, wanted.run_id, owner=owner)
    except EngineError as error:
        st.error(as_text(message_of(error)))
    else:
        if isinstance(wanted, SweepOrder) and wanted.figure:
            go_to_figure(wanted.figure.partition("/")[0])
        if isinstance(wanted, PendingLaunch) and wanted.stays:
            st.rerun()
        if isinstance(wanted, DuelOrder):
            go_to_duel(found)
        (go_to_sweep if isinstance(wanted, SweepOrder) else go_to_run)(found)


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
