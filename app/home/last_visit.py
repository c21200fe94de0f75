"""The last visit of the person at this browser: runs that ended later are new to them."""

import streamlit as st

from app.ui import current_user, dialogs
from app.ui.store_access import COMMAND_TIMEOUT_S, command
from engine.errors import EngineError
from engine.home import Home
from engine.store import Reader, Store

_SINCE, _IS_FIRST = "home.since", "home.first"
WHY = (
    "This page will show what has ended since your last visit, and the runs that you launch will carry your name. "
    "You are asked only once."
)


def record(reader: Reader) -> None:
    """Record the visit to the Home page; what is new stays the same until the next visit."""
    who = current_user.name()
    st.session_state[_IS_FIRST] = who is None or reader.visits.is_first(who)
    if who is None:
        st.session_state[_SINCE] = reader.visits.new_since()
        return
    try:
        with Store.open(Home.find(), timeout_s=COMMAND_TIMEOUT_S / 4) as store:
            st.session_state[_SINCE] = store.visits.note(who)
    except EngineError:  # a busy store or a full disk must not block reading
        st.session_state[_SINCE] = reader.visits.new_since(who)


def since() -> str:
    """Return the moment after which ends are new to the person."""
    return str(st.session_state[_SINCE])


def is_first() -> bool:
    """Return whether this is the person's first visit, or the person is unknown."""
    return bool(st.session_state[_IS_FIRST])


def news_actions() -> None:
    """Show the button that marks all as read or, without a name, the one that asks for it."""
    if current_user.name() is not None:
        st.button("Mark as read", key="home.seen", type="tertiary", on_click=_mark_read)
    elif st.button("Since my last visit", key="home.name", type="tertiary"):
        dialogs.open_soon(current_user.ask_name, WHY, "Save")


def _mark_read() -> None:
    who = current_user.whoever()
    if (at := command(lambda store: store.visits.mark_seen(who))) is not None:
        st.session_state[_SINCE] = at
