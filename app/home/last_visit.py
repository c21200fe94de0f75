"""Since when what ended is new to the person at this browser."""

import streamlit as st

from app.ui import current_user, dialogs
from app.ui.store_access import COMMAND_TIMEOUT_S, command
from engine.errors import EngineError
from engine.home import Home
from engine.store import Reader, Store

_SINCE = "home.since"
WHY = (
    "What has ended is then counted from your last visit to this page, and the runs that you start carry the name. "
    "You are asked once."
)


def look(reader: Reader) -> None:
    """Note that the person looks at the Home page, which stays as it is for them until they come again."""
    who = current_user.name()
    if who is None:
        st.session_state[_SINCE] = reader.visits.new_since()
        return
    try:
        with Store.open(Home.find(), timeout_s=COMMAND_TIMEOUT_S / 4) as store:
            st.session_state[_SINCE] = store.visits.note(who)
    except EngineError:  # a busy store or a full disk must not keep anybody from reading
        st.session_state[_SINCE] = reader.visits.new_since(who)


def since() -> str:
    """Return the moment after which ends are new to the person."""
    return str(st.session_state[_SINCE])


def news_actions() -> None:
    """Offer to call all of it seen, or, to a person whose name is not known, to give it."""
    if current_user.name() is not None:
        st.button("Mark as seen", key="home.seen", type="tertiary", on_click=_seen)
    elif st.button("Count from my last visit", key="home.name", type="tertiary"):
        dialogs.open_soon(current_user.ask_name, WHY, "Save")


def _seen() -> None:
    who = current_user.whoever()
    if (at := command(lambda store: store.visits.mark_seen(who))) is not None:
        st.session_state[_SINCE] = at
