"""Widgets whose value the address keeps as written: Streamlit's own binding keeps the labels of `format_func`."""

from collections.abc import Sequence
from typing import Any

import streamlit as st


def take(key: str, usual: Sequence[str] | None) -> None:
    """Give the widget its value before it is drawn: the address's on a visit and after a link or Back, else its own
    again, as a popover mounts it only when it is opened. `usual` is the default of one with several values, None that
    of one with a single value.
    """
    there = st.query_params.get_all(key)
    if key in st.session_state and st.session_state.get(_seen(key)) == there:
        st.session_state[key] = st.session_state[key]
        return
    st.session_state[_seen(key)] = there
    values = [each for each in there if each] if there else list(usual or ())
    st.session_state[key] = values if usual is not None else next(iter(values), None)


def keep(key: str, usual: Sequence[str] | None) -> None:
    """Write the widget's value into the address, after it has changed."""
    value: Any = st.session_state[key]
    if value == (None if usual is None else list(usual)):
        st.query_params.pop(key, None)
    else:
        st.query_params[key] = value or ""
    st.session_state[_seen(key)] = st.query_params.get_all(key)


def _seen(key: str) -> str:
    return f"address.{key}"
