"""How a page accesses the store: one reader per query; the page shows the store's errors."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, TypeVar

import streamlit as st

from app.core.assets import at
from app.ui import current_user
from app.ui.html import as_text, link
from engine.errors import EngineError, NoSuchDuel, NoSuchRun, NoSuchSweep
from engine.home import Home
from engine.store import Reader, Store

# ---- The page of a run, a sweep or a duel that doesn't exist: a title, the reason, and a link to the list ----------

Kind = Literal["run", "sweep", "duel"]
LISTS: dict[Kind, str] = {"run": "/runs", "sweep": "/sweep", "duel": "/duel"}


def show_missing(kind: Kind, title: str, reason: str) -> None:
    """Show that something doesn't exist, as page and tab title, with a link to all of its kind."""
    st.set_page_config(page_title=f"{title} · Parallab")
    st.title(as_text(title), anchor=False)
    st.text(reason)
    st.html(link(f"See all {kind}s", at(LISTS[kind])))


def invalid_link(kind: Kind, wanted: str) -> None:
    """Show the page of a link whose id is no number, and stop the script."""
    show_missing(
        kind,
        f"{kind.capitalize()} {wanted[:40]} doesn't exist",
        f"The id of a {kind} is a number, as in /{kind}?{kind}=12.",
    )
    st.stop()


# ---- Store access --------------------------------------------------------------------------------------------------

COMMAND_TIMEOUT_S = 2.0
Answer = TypeVar("Answer")
_TROUBLE = "command.trouble"
_KINDS: dict[type[EngineError], Kind] = {NoSuchRun: "run", NoSuchSweep: "sweep", NoSuchDuel: "duel"}


def message_of(error: EngineError) -> str:
    """Return an error's message for a page, without the paths of the home."""
    return Home.find().unnamed(str(error))


@contextmanager
def reading(otherwise: Callable[[], None] | None = None) -> Iterator[Reader]:
    """Open the store for reading; on an error show its message, call `otherwise`, and stop the script (or fragment).

    A missing run, sweep or duel has a page of its own.
    """
    try:
        with Reader.open(Home.find()) as reader:
            yield reader
    except EngineError as error:
        title, missing, _ = message_of(error).partition(" doesn't exist")
        if missing and (kind := _KINDS.get(type(error))):
            show_missing(kind, title + missing, "It was deleted, or the link is wrong.")
        else:
            st.error(as_text(message_of(error)))
        if otherwise:
            otherwise()
        st.stop()


def command(order: Callable[[Store], Answer]) -> Answer | None:
    """Run one command on the store; return its result, or None after showing the error. It records a name, which is
    asked for first.
    """
    current_user.require_name(lambda: command(order))
    try:
        with Store.open(Home.find(), timeout_s=COMMAND_TIMEOUT_S) as store:
            return order(store)
    except EngineError as error:
        st.error(as_text(message_of(error)))
        return None


def give(order: Callable[[Store], object], place: str) -> bool:
    """Run one command in a callback, which must not draw: its output would take the place of the page's first elements.
    Return False on an error, which is then shown at `place`.
    """
    st.session_state.pop(_TROUBLE, None)
    try:
        with Store.open(Home.find(), timeout_s=COMMAND_TIMEOUT_S) as store:
            order(store)
    except EngineError as error:
        st.session_state[_TROUBLE] = (place, message_of(error))
        return False
    return True


def say_trouble(place: str) -> None:
    """Show the error at a place, until the next command."""
    of, sentence = st.session_state.get(_TROUBLE, ("", ""))
    if of == place:
        st.error(as_text(sentence))
