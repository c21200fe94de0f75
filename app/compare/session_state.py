"""Synchronises the Compare view between the address and the widgets."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import streamlit as st

from app.links import addresses
from app.links.compare import CompareView, ids_text, query_of, read_ids, read_view

_VIEW, _WRITTEN, _SAID = "compare.view", "compare.written", "compare.said"
_WIDGETS = "compare.at."
LONGEST, SHORT = 60, 40
"""Letters of the longest label of an option, and those of a shortened one, which fit into a select box."""


def arrive() -> CompareView:
    """Return the view in the address; for an address written by this page, the current view."""
    query = st.query_params.to_dict()
    if query != st.session_state.get(_WRITTEN) or _VIEW not in st.session_state:
        show(*read_view(query))
        st.session_state[_WRITTEN] = query
    found: CompareView = st.session_state[_VIEW]
    return found


def show(view: CompareView, said: Sequence[str] = ()) -> None:
    """Set the widgets created later to a view, and keep the messages about its link."""
    for key in [key for key in st.session_state if str(key).startswith(_WIDGETS)]:
        del st.session_state[key]
    st.session_state[_VIEW], st.session_state[_SAID] = view, (None, tuple(said))


def keep(view: CompareView) -> None:
    """Write the current view into the address."""
    query = query_of(view)
    arrived, said = st.session_state[_SAID]
    st.session_state[_SAID] = (arrived or view, said)
    if view != st.session_state[_VIEW] or query != st.session_state[_WRITTEN]:
        st.session_state[_VIEW], st.session_state[_WRITTEN] = view, query
        if query != st.query_params.to_dict():
            addresses.replace(query)


def change(parts: Mapping[str, str]) -> None:
    """Change parts of the view that no widget holds, given as in the address; before the page reruns."""
    query = {name: text for name, text in (query_of(st.session_state[_VIEW]) | dict(parts)).items() if text}
    st.session_state[_VIEW] = read_view(query)[0]


def complaints() -> tuple[str, ...]:
    """Return the parts of the link that could not be read, until the view changes."""
    arrived, said = st.session_state[_SAID]
    return tuple(said) if arrived in (None, st.session_state[_VIEW]) else ()


def complain(said: Sequence[str]) -> None:
    """Add a message about a newly opened link."""
    arrived, before = st.session_state[_SAID]
    if arrived is None:
        st.session_state[_SAID] = (None, (*before, *said))


def key_of(field: str, value: Any) -> str:
    """Return the key of a field's widget and initialise its value."""
    key = f"{_WIDGETS}{field}"
    st.session_state.setdefault(key, value)
    return key


def turned_to(view: CompareView, tab: str) -> CompareView:
    """Return the view in another tab, with the logarithmic axes that this one had before."""
    logs: dict[str, str] = st.session_state.setdefault(f"{_WIDGETS}logs", {})
    logs[view.tab] = view.log
    return replace(view, tab=tab, log=logs.get(tab, ""))


def current(view: CompareView, field: str) -> Any:
    """Return the value that a field's widget, which is created later, will have."""
    return st.session_state.get(f"{_WIDGETS}{field}", getattr(view, field))


def runs_field(view: CompareView) -> tuple[CompareView, list[str]]:
    """Show the run ids as text; return the updated view, and an error for each invalid part."""
    text = st.text_input(
        "Runs",
        key=key_of("runs", ids_text(view.runs)),
        placeholder="1, 2, 5-9",
        width=260,
        help="Run ids and ranges, as listed on the Runs page.",
    )
    ids, wrong = read_ids(text)
    return replace(view, runs=ids), [
        f"Invalid run '{each[:40]}'. Enter numbers and ranges, such as 1,2,5-9." for each in wrong
    ]


def one_of(
    view: CompareView, field: str, label: str, known: Sequence[str], called: Callable[[str], str], **options: Any
) -> CompareView:
    """Show a select box; the first option replaces an unknown value and stands for an empty field."""
    start = getattr(view, field)
    key = key_of(field, start if start in known else known[0])
    if st.session_state[key] not in known[1:]:
        st.session_state[key] = known[0]  # also where it is so already: the browser would keep its label of before
    found = st.selectbox(label, known, key=key, format_func=short_labels(known, called).__getitem__, **options)
    change: dict[str, Any] = {field: "" if found == known[0] and not start else found}
    return replace(view, **change)


def several_of(
    view: CompareView, field: str, label: str, known: Sequence[str], called: Callable[[str], str], **options: Any
) -> CompareView:
    """Show a multiselect; values of the view that are not options are dropped.

    It is given its value only where a label of it changed: it forgets then what is typed to find an option. An option
    that was just chosen has the label that it was offered with.
    """
    key, labels = key_of(field, list(getattr(view, field) or ())), short_labels(known, called)
    value, drawn = [name for name in st.session_state[key] if name in known], st.session_state.get(f"{key}.drawn", {})
    if value != st.session_state[key] or any(drawn.get(name) != labels[name] for name in value):
        st.session_state[key] = value
    st.session_state[f"{key}.drawn"] = labels
    chosen = st.multiselect(
        label,
        known,
        key=key,
        format_func=labels.__getitem__,
        select_all=False,
        persist_state="session",  # gives the value again until the browser has drawn it
        **options,
    )
    change: dict[str, Any] = {field: tuple(chosen)}
    return replace(view, **change)


def short_labels(known: Iterable[str], called: Callable[[str], str]) -> dict[str, str]:
    """Return the labels of options; long ones without their middle, except where that would make two alike."""
    whole = {name: called(name) for name in known}
    short = {
        name: text if len(text) <= LONGEST else f"{text[: SHORT // 4]}…{text[SHORT // 4 + 1 - SHORT :]}"
        for name, text in whole.items()
    }
    count = Counter(short.values())
    return {name: text if count[text] == 1 else whole[name] for name, text in short.items()}
