"""How a page asks the store: a reader that lives as long as the question; whatever the store can't do stands on the page as its sentence."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import streamlit as st

from app.markup import as_text
from engine.errors import EngineError
from engine.home import Home
from engine.store import Reader, Store

COMMAND_TIMEOUT_S = 2.0
Answer = TypeVar("Answer")


def told(error: EngineError) -> str:
    """Return an error's sentence for a page: without the paths of the home, which are no visitor's business."""
    return Home.find().unnamed(str(error))


@contextmanager
def reading(otherwise: Callable[[], None] | None = None) -> Iterator[Reader]:
    """Open the store for reading; on an error of ours show its sentence, do `otherwise`, and end the script (or fragment)."""
    try:
        with Reader.open(Home.find()) as reader:
            yield reader
    except EngineError as error:
        st.error(as_text(told(error)))
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
