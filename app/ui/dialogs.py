"""How a dialog is opened: by the frame round every page, outside of all fragments.

Streamlit makes a dialog a fragment of its own. Opened inside a live fragment it is that one's child, and a child whose
click arrives together with news for its parent is not run (1.67 expects the parent to draw it again): the click would
be lost, and nobody told. Opened outside it has no parent.
"""

from collections.abc import Callable
from typing import Any

import streamlit as st

_ASKED = "dialogs.asked"


def open_soon(ask: Callable[..., None], *args: Any) -> None:
    """Run the whole page again, which then opens the dialog `ask(*args)`."""
    st.session_state[_ASKED] = (ask, args)
    st.rerun(scope="app")


def open_asked() -> None:
    """Open the dialog that was asked for, once."""
    if asked := st.session_state.pop(_ASKED, None):
        ask, args = asked
        ask(*args)
