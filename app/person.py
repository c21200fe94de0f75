"""Who sits at this browser: the name of the signed cookie, or the one just given; asked for when first needed."""

import streamlit as st

from app import identity, live
from engine.home import Home

_HERE = "person"


def name() -> str | None:
    """Return the name of the person at this browser, or None before it was asked."""
    here = st.session_state.get(_HERE)
    if here is None:
        here = st.session_state[_HERE] = identity.read(Home.find(), st.context.cookies.get(identity.COOKIE))
    return here if isinstance(here, str) else None


@st.dialog("What is your name?")
def ask(why: str, button: str) -> None:
    """Ask for the name in a dialog; the page runs again once it is known."""
    st.write(why)
    if said := identity.take_over(Home.find(), live.name_form(name() or "", button)):
        st.session_state[_HERE] = said
        st.rerun()


def whoever() -> str:
    """Return the name for an event that needs none, such as a cancel by someone not asked yet."""
    return name() or "someone"
