"""The current user: the signed-in person, or in a lab without accounts the name given in this browser, requested when
first needed.
"""

from collections.abc import Callable, Collection, Mapping
from time import monotonic
from typing import TypedDict

import streamlit as st

from app.core import visitor
from app.core.assets import at
from app.core.visitor import Visitor, visitor_now
from app.ui import components, dialogs
from app.ui.html import as_text
from engine.access.rules import PersonStanding
from engine.errors import EngineError
from engine.home import Home

_HERE, _VISITOR, _WAITING = "person", "person.visitor", "person.waiting"
WHY = (
    "It is recorded with what you launch, save and change, so that your lab can tell its people apart. You are asked "
    "only once."
)
FRESH_S = 0.5
"""Seconds for which the visitor is cached within a script run. It does not outlive a sign-out: the gate checks each
message, and without a message no script runs.
"""


def standing() -> PersonStanding:
    """Return the current permissions of the person at this browser."""
    found = _visitor()
    if found.who is not None:
        return found.who.standing
    return PersonStanding(_given() or "", None if found.asked else "admin", open=not found.asked)


def name() -> str | None:
    """Return the name of the person at this browser, or None if not given yet."""
    return standing().name or None


def has_account() -> bool:
    """Return whether a person is signed in at this browser; False in a lab without accounts."""
    return _visitor().who is not None


def key() -> str:
    """Return the store's key of this browser's sign-in, empty without one."""
    return _visitor().key


def may(command: str, owners: Collection[str] = ()) -> bool:
    """Return whether this person may run a command on objects of `owners`; pages only display it, the store enforces
    it.
    """
    return standing().may(command, owners)


def why_not(command: str, owners: Collection[str] = (), what: str = "") -> str | None:
    """Return the reason why this person may not, for the help of a disabled button; None if they may."""
    return standing().refusal(command, what, owners) or None


def why_no_commands() -> str | None:
    """Return why this person may launch no commands of their own from this browser, None if they may."""
    if _visitor().asked:
        return why_not("run commands")
    return visitor.why_no_commands(Home.find(), _cookies()) or None


def why_no_commands_without_accounts() -> str:
    """Return why the current page, or a script's request, may launch no commands in a lab without accounts; empty if it
    may. The store asks this in a console, so pages only display it.
    """
    return visitor.why_no_commands(Home.find(), _cookies())


@st.dialog("Enter your name")
def ask_name(why: str, button: str, then: Callable[[], object] | None = None) -> None:
    """Show the dialog for the name; once it is given, the page reruns and begins with `then`."""
    st.write(why)
    if then:
        st.write("**Nothing is done yet:** your action runs once you save your name.")
    if given := visitor.take_over(Home.find(), components.name_form(name() or "", button)):
        st.session_state[_HERE], st.session_state[_WAITING] = given, then
        st.rerun()


def require_name(then: Callable[[], object], button: str = "Save and continue") -> None:
    """Ask for the name if it is not known: the script ends here, and `then` runs once the name is given."""
    if name() is None:
        dialogs.open_soon(ask_name, WHY, button, then)


def begin_with(then: Callable[[], object]) -> None:
    """Run `then` at the start of the next rerun of the page, or of its fragment."""
    st.session_state[_WAITING] = then


def carry_out_waiting() -> None:
    """Run what waited for the name or for this rerun."""
    if then := st.session_state.pop(_WAITING, None):
        then()


def whoever() -> str:
    """Return the name, or its stand-in where nothing is recorded, such as in an estimate or a report."""
    return name() or "someone"


def require_sign_in() -> None:
    """Stop the script for a person who is not signed in, if a sign-in is required."""
    st.session_state.pop(_VISITOR, None)
    found = _visitor()
    if not found.welcome:
        st.title("Signed out")
        st.write("Sign in to view this lab.")
        st.link_button("Sign in", at("/signin"), type="primary")
        st.stop()


def _visitor() -> Visitor:
    kept = st.session_state.get(_VISITOR)
    if kept and monotonic() - kept[0] < FRESH_S and kept[1] == Home.find():
        found: Visitor = kept[2]
        return found
    try:
        found = visitor_now(_cookies())
    except EngineError as error:
        st.error(as_text(Home.find().unnamed(str(error))))
        st.stop()
    st.session_state[_VISITOR] = (monotonic(), Home.find(), found)
    return found


def _cookies() -> Mapping[str, str]:
    return st.context.cookies


def _given() -> str | None:
    """Return the name in the signed cookie, or the one just given."""
    here = st.session_state.get(_HERE)
    if here is None:
        here = visitor.read(Home.find(), _cookies().get(visitor.NAME_COOKIE)) or ""
        st.session_state[_HERE] = here
    return here if isinstance(here, str) else None


# ---- The permissions of the current user as controls: enabled, or disabled with the reason as help -----------------
# Display only: the store enforces them.


class Control(TypedDict):
    """Whether a control is disabled, and its help."""

    disabled: bool
    help: str | None


def control(
    command: str,
    owners: Collection[str] = (),
    *,
    what: str = "",
    help: str | None = None,
    disabled: bool = False,
    runs_command: bool = False,
) -> Control:
    """Return the state of a control for a command on objects of `owners`, which `runs_command` of the lab's own script
    or not; `help` and `disabled` apply to persons with the permission.
    """
    refusal = why_not(command, owners, what) or (why_no_commands() if runs_command else None)
    return off(refusal, help=help, disabled=disabled)


def off(refusal: str | None, *, help: str | None = None, disabled: bool = False) -> Control:
    """Return the state of a control: disabled by a refusal, which is then its help."""
    return Control(disabled=disabled or refusal is not None, help=as_text(refusal) if refusal else help)


def say_whose(what: str, owner: str) -> None:
    """Show the owner of a run, sweep or duel whose controls are disabled, for people who can't hover over them."""
    here = standing()
    if here.may("cancel", [owner]):
        return
    allowed = "an admin" if owner == here.name else f"{owner} or an admin"
    if here.may("launch"):
        text = (
            f"{what} belongs to {owner}: you can view it, compare it and launch a similar one (Clone). Only {allowed} "
            "can stop, retry or edit it."
        )
    else:
        named = f"{what[:1].lower()}{what[1:]}"
        text = (
            f"You have the viewer role: you can view, compare and export {named}. Only {allowed} can stop, retry or "
            "edit it."
        )
    st.caption(as_text(text))
