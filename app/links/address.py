"""Widgets whose value the address keeps, without Streamlit's own binding (`bind="query-params"`).

Streamlit (1.67) drops from the address of the next page what a widget of the page that was left has bound: a link to
`compare?group=trainers` would arrive without its group from a page that binds `group`. So a name that several pages
have is kept by these functions. The binding also keeps labels of `format_func` instead of values.
"""

from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any

import streamlit as st

Usual = Sequence[str] | str | bool | float | None


def take(key: str, usual: Usual, known: Collection[Any] | None = None) -> None:
    """Give the widget its value before it is drawn: the address's on a visit and after a link or Back, else its own
    again, as a popover mounts it only when it is opened. `usual` is its default, in the type of its value (None: a
    single text); it also replaces a value that is not among the `known` ones.
    """
    there = st.query_params.get_all(key)
    if not there:  # the usual value is left out, and may have changed
        value = _plain(usual)
    elif key in st.session_state and st.session_state.get(_seen(key)) == there:
        value = st.session_state[key]
    else:
        value = _read([each for each in there if each], usual)
    st.session_state[key] = value if known is None or value in known else usual
    keep(key, usual)


def kept(key: str, usual: Usual, known: Collection[Any] | None = None) -> dict[str, Any]:
    """Return the options of a widget that `take` and `keep` serve."""
    take(key, usual, known)
    return {"key": key, "on_change": keep, "args": (key, usual)}


def keep(key: str, usual: Usual) -> None:
    """Write the widget's value into the address, after it has changed; the usual one is left out."""
    value: Any = st.session_state[key]
    written = str(value).lower() if isinstance(value, bool | float) else value or ""
    if value == _plain(usual):
        if key in st.query_params:
            del st.query_params[key]
    elif st.query_params.get_all(key) != ([written] if isinstance(written, str) else written):
        st.query_params[key] = written
    st.session_state[_seen(key)] = st.query_params.get_all(key)


def _plain(usual: Usual) -> Any:
    return list(usual) if isinstance(usual, Sequence) and not isinstance(usual, str) else usual


def _read(values: Sequence[str], usual: Usual) -> Any:
    match usual:
        case str() | None:
            return next(iter(values), usual)
        case bool():
            return values[:1] == ["true"]
        case float():
            with suppress(ValueError):
                return float(next(iter(values), usual))
            return usual
    return list(values)


def _seen(key: str) -> str:
    return f"address.{key}"
