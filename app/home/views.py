"""The saved views of the whole lab on the Home page, one's own first."""

from collections.abc import Sequence

import streamlit as st

from app.actions import saved_views
from app.ui import current_user
from engine.store import Reader, SavedView

SHOWN = 6
"""So many stand open, the others are folded."""


def show_views(reader: Reader) -> None:
    """List the views; where there is none, say how one comes to be."""
    found = mine_first(reader.views.find(), current_user.name())
    if not found:
        st.caption("No view has been saved yet: Save view on the Compare page keeps one here under a name.")
    for view in found[:SHOWN]:
        saved_views.entry(view, with_page=True)
    if found[SHOWN:]:
        with st.expander(f"{len(found) - SHOWN} more"):
            for view in found[SHOWN:]:
                saved_views.entry(view, with_page=True)


def mine_first(views: Sequence[SavedView], who: str | None) -> list[SavedView]:
    """Return views with those of a person first, else as they came."""
    return sorted(views, key=lambda view: view.owner != who)
