"""How a page asks the store: a reader that lives as long as the question; whatever the store can't do stands on the
page as its sentence.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import streamlit as st

from app.core.base_path import at
from app.ui.html import as_text
from engine.errors import EngineError, NoSuchDuel, NoSuchRun, NoSuchSweep
from engine.home import Home
from engine.store import Reader, Store

COMMAND_TIMEOUT_S = 2.0
Answer = TypeVar("Answer")
_LISTS: dict[type[EngineError], tuple[str, str, str]] = {
    NoSuchRun: ("Run", "/runs", "All runs"),
    NoSuchSweep: ("Sweep", "/sweep", "All sweeps"),
    NoSuchDuel: ("Duel", "/duel", "All duels"),
}
"""What the page of something that is not there is called, and where those are that are."""


def told(error: EngineError) -> str:
    """Return an error's sentence for a page: without the paths of the home, which are no visitor's business."""
    return Home.find().unnamed(str(error))


@contextmanager
def reading(otherwise: Callable[[], None] | None = None) -> Iterator[Reader]:
    """Open the store for reading; on an error of ours show its sentence, do `otherwise`, and end the script (or
    fragment).

    Where what a link names is not there, the page has its title and a link to what is.
    """
    try:
        with Reader.open(Home.find()) as reader:
            yield reader
    except EngineError as error:
        title, path, label = _LISTS.get(type(error), ("", "", ""))
        if title:
            st.title(title, anchor=False)
        st.error(as_text(told(error)))
        if title:
            st.html(f'<a href="{at(path)}">{label}</a>')
        if otherwise:
            otherwise()
        st.stop()


def command(order: Callable[[Store], Answer]) -> Answer | None:
    """Give the store one command; return its answer, or None where it could not be done and the page says why."""
    try:
        with Store.open(Home.find(), timeout_s=COMMAND_TIMEOUT_S) as store:
            return order(store)
    except EngineError as error:
        st.error(as_text(told(error)))
        return None
