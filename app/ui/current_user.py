"""Who sits at this browser: whom its sign-in stands for, or in a lab without accounts the name that it gave; asked for
when first needed.
"""

from collections.abc import Collection, Mapping
from time import monotonic

import streamlit as st

from app.core import name_cookie
from app.core.base_path import at
from app.core.visitor import Visitor, key_in, visitor_now
from app.ui import components
from app.ui.html import as_text
from app.ui.store_access import told
from engine.access.rules import PersonStanding
from engine.errors import EngineError
from engine.home import Home

_HERE, _VISITOR = "person", "person.visitor"
FRESH_S = 0.5
"""So long one look serves all that a script run asks. It outlives no sign-out: the gate looks anew at each message, and
without one no script runs.
"""


def standing() -> PersonStanding:
    """Return what the person at this browser may do at this moment."""
    found = _visitor()
    if found.who is not None:
        return PersonStanding(found.who.name, found.who.role)
    return PersonStanding(_given() or "", None if found.asked else "admin", open=not found.asked)


def name() -> str | None:
    """Return the name of the person at this browser, or None before it was asked."""
    return standing().name or None


def has_account() -> bool:
    """Say whether somebody is signed in at this browser; in a lab without accounts nobody is."""
    return _visitor().who is not None


def key() -> str:
    """Return what the store knows this browser's sign-in by, empty where there is none."""
    return _visitor().key


def may(command: str, owners: Collection[str] = ()) -> bool:
    """Say whether this person may give a command to what belongs to `owners`; pages show it by what they offer, the
    store holds it.
    """
    return standing().may(command, owners)


def why_not(command: str, owners: Collection[str] = (), what: str = "") -> str | None:
    """Return why this person may not, for the help of a button that is off; None where they may."""
    return standing().refusal(command, what, owners) or None


@st.dialog("What is your name?")
def ask_name(why: str, button: str) -> None:
    """Ask for the name in a dialog; the page runs again once it is known."""
    st.write(why)
    if said := name_cookie.take_over(Home.find(), components.name_form(name() or "", button)):
        st.session_state[_HERE] = said
        st.rerun()


def whoever() -> str:
    """Return the name for an event that needs none, such as a cancel by someone not asked yet."""
    return name() or "someone"


def let_in() -> None:
    """End the script for whoever has not signed in, or is signed out by now, where a sign-in is asked for."""
    st.session_state.pop(_VISITOR, None)
    found = _visitor()
    if not found.welcome:
        st.title("Signed out")
        st.write("You have to sign in to see this lab.")
        st.link_button("Sign in", at("/signin"), type="primary")
        st.stop()


def _visitor() -> Visitor:
    cookies = _cookies()
    key = key_in(cookies)
    kept = st.session_state.get(_VISITOR)
    if kept and kept[0] == (key, Home.find()) and monotonic() - kept[1] < FRESH_S:
        found: Visitor = kept[2]
        return found
    try:
        found = visitor_now(cookies)
    except EngineError as error:
        st.error(as_text(told(error)))
        st.stop()
    st.session_state[_VISITOR] = ((key, Home.find()), monotonic(), found)
    return found


def _cookies() -> Mapping[str, str]:
    return st.context.cookies


def _given() -> str | None:
    """Return the name of the signed cookie, or the one just given."""
    here = st.session_state.get(_HERE)
    if here is None:
        here = st.session_state[_HERE] = name_cookie.read(Home.find(), st.context.cookies.get(name_cookie.COOKIE))
    return here if isinstance(here, str) else None
