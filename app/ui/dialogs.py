"""Opens dialogs from the frame of every page, outside all fragments.

Streamlit makes a dialog a fragment of its own. Opened inside a live fragment it becomes its child, and a click in a
child that arrives together with a rerun of the parent is silently lost (1.67). Opened outside it has no parent.

A run of the script may open one dialog: the one that was asked for comes first.
"""

from collections.abc import Callable
from typing import Any

import streamlit as st

_ASKED = "dialogs.asked"
_OPENED = "dialogs.opened"


def open_soon(ask: Callable[..., None], *args: Any) -> None:
    """Rerun the whole page, which then opens the dialog `ask(*args)`."""
    st.session_state[_ASKED] = (ask, args)
    st.rerun(scope="app")


def open_asked() -> None:
    """Open the requested dialog, once."""
    asked = st.session_state.pop(_ASKED, None)
    st.session_state[_OPENED] = asked is not None
    if asked:
        ask, args = asked
        ask(*args)


def open_by_itself(show: Callable[..., None], *args: Any) -> None:
    """Open the dialog `show(*args)`, which nobody asked for in this run, unless a requested one is open: in a later
    run then.
    """
    if not st.session_state.get(_OPENED):
        show(*args)
