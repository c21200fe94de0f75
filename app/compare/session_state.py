"""The Compare page's view between its address and its widgets: a link fills the widgets, and what they say goes back
into the address.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import streamlit as st

from app.links.compare import CompareView, ids_text, query_of, read_ids, read_view

_VIEW, _WRITTEN, _SAID = "compare.view", "compare.written", "compare.said"
_WIDGETS = "compare.at."


def arrive() -> CompareView:
    """Return the view that the address asks for; one that this page wrote itself is the one it had."""
    query = st.query_params.to_dict()
    if query != st.session_state.get(_WRITTEN) or _VIEW not in st.session_state:
        show(*read_view(query))
        st.session_state[_WRITTEN] = query
    found: CompareView = st.session_state[_VIEW]
    return found


def show(view: CompareView, said: Sequence[str] = ()) -> None:
    """Let the widgets that come after show a view, and keep what is to be said about its link."""
    for key in [key for key in st.session_state if str(key).startswith(_WIDGETS)]:
        del st.session_state[key]
    st.session_state[_VIEW], st.session_state[_SAID] = view, (None, tuple(said))


def keep(view: CompareView) -> None:
    """Write the view that the widgets say into the address."""
    query = query_of(view)
    arrived, said = st.session_state[_SAID]
    st.session_state[_SAID] = (arrived or view, said)
    if view != st.session_state[_VIEW] or query != st.session_state[_WRITTEN]:
        st.session_state[_VIEW], st.session_state[_WRITTEN] = view, query
        if query != st.query_params.to_dict():
            st.query_params.from_dict(query)


def complaints() -> tuple[str, ...]:
    """Return what of the link could not be read, until the view is another one."""
    arrived, said = st.session_state[_SAID]
    return tuple(said) if arrived in (None, st.session_state[_VIEW]) else ()


def complain(said: Sequence[str]) -> None:
    """Add to what is to be said about the link, while it has just come."""
    arrived, before = st.session_state[_SAID]
    if arrived is None:
        st.session_state[_SAID] = (None, (*before, *said))


def key_of(field: str, value: Any) -> str:
    """Return the key of a field's widget, which begins with the field's value."""
    key = f"{_WIDGETS}{field}"
    st.session_state.setdefault(key, value)
    return key


def runs_field(view: CompareView) -> tuple[CompareView, list[str]]:
    """Show the ids as text; return the view with those written, and the parts that are none."""
    text = st.text_input(
        "Runs",
        key=key_of("runs", ids_text(view.runs)),
        placeholder="1, 2, 5-9",
        width=260,
        help="Ids and ranges; the Runs page shows them.",
    )
    ids, wrong = read_ids(text)
    return replace(view, runs=ids), [
        f"Runs are numbers and ranges such as 1,2,5-9; '{each[:40]}' is none." for each in wrong
    ]


def one_of(
    view: CompareView, field: str, label: str, known: Sequence[str], called: Callable[[str], str], **options: Any
) -> CompareView:
    """Show a choice of one name, the first where the view's is not among them; the first one is what an empty field
    means.
    """
    start = getattr(view, field)
    key = key_of(field, start if start in known else known[0])
    if st.session_state[key] not in known:
        st.session_state[key] = known[0]
    found = st.selectbox(label, known, key=key, format_func=called, **options)
    change: dict[str, Any] = {field: "" if found == known[0] and not start else found}
    return replace(view, **change)


def several_of(
    view: CompareView, field: str, label: str, known: Sequence[str], called: Callable[[str], str], **options: Any
) -> CompareView:
    """Show a choice of several names; those of the view that are not among them are left out."""
    key = key_of(field, list(getattr(view, field)))
    st.session_state[key] = [name for name in st.session_state[key] if name in known]
    change: dict[str, Any] = {field: tuple(st.multiselect(label, known, key=key, format_func=called, **options))}
    return replace(view, **change)
