"""The page of a run, a sweep or a duel that doesn't exist: a title, the reason, and a link to the list."""

from typing import Literal

import streamlit as st

from app.core.base_path import at
from app.ui.html import as_text, link

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
