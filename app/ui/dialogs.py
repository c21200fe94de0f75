"""Opens dialogs from the frame of every page, outside all fragments.

Streamlit makes a dialog a fragment of its own. Opened inside a live fragment it becomes its child, and a click in a
child that arrives together with a rerun of the parent is silently lost (1.67). Opened outside it has no parent.
"""

from collections.abc import Callable
from typing import Any

import streamlit as st

_ASKED = "dialogs.asked"


def open_soon(ask: Callable[..., None], *args: Any) -> None:
    """Rerun the whole page, which then opens the dialog `ask(*args)`."""
    st.session_state[_ASKED] = (ask, args)
    st.rerun(scope="app")


def open_asked() -> None:
    """Open the requested dialog, once."""
    if asked := st.session_state.pop(_ASKED, None):
        ask, args = asked
        ask(*args)
