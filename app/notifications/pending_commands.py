"""Commands of a fragment's buttons, run before the fragment is redrawn, with errors shown next to the button.

A callback of a fragment must not draw: its output would replace the page's first elements.
"""

from collections.abc import Callable

import streamlit as st

from app.ui.html import as_text
from app.ui.store_access import COMMAND_TIMEOUT_S, told
from engine.errors import EngineError
from engine.home import Home
from engine.store import Store

_TROUBLE = "notify.trouble"


def give(order: Callable[[Store], object], place: str) -> bool:
    """Run a store command; return False on an error, which is then shown at `place`."""
    st.session_state.pop(_TROUBLE, None)
    try:
        with Store.open(Home.find(), timeout_s=COMMAND_TIMEOUT_S) as store:
            order(store)
    except EngineError as error:
        st.session_state[_TROUBLE] = (place, told(error))
        return False
    return True


def say_trouble(place: str) -> None:
    """Show the error at a place, until the next command."""
    of, sentence = st.session_state.get(_TROUBLE, ("", ""))
    if of == place:
        st.error(as_text(sentence))
