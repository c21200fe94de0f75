"""Saved views, on Home and on their own page: a link each, and for its owner a box to rename or delete it."""

from collections.abc import Callable
from html import escape

import streamlit as st

from app.core.base_path import at
from app.ui import current_user
from app.ui.html import when
from app.ui.store_access import command
from engine.store import SavedView, Store
from engine.store.runs.saved_views import NAME_LENGTH


def entry(view: SavedView, *, with_page: bool = False) -> None:
    """Show one view; `with_page` says of which page it is."""
    link = f'<a href="{escape(at(f"/{view.page}?{view.query}"))}">{escape(view.name)}</a>'
    page = f"{escape(view.page.capitalize())}, " if with_page else ""
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.html(
            (
                f'<div class="pl-said">{link} <span class="pl-quiet">{page}by {escape(view.owner)}, '
                f"{when(view.saved_at)}</span></div>"
            ),
            width="stretch",
        )
        if is_to_change(view):
            _change(view)


def is_to_change(view: SavedView) -> bool:
    """Say whether the person may rename and delete a view; in a lab without accounts its owner alone, by courtesy."""
    here = current_user.standing()
    return view.owner == here.name if here.open else here.may("rename view", [view.owner])


def _change(view: SavedView) -> None:
    with st.popover("Change", key=f"view.change.{view.id}", type="tertiary", on_change="rerun") as opened:
        if not opened.open:
            return
        field = f"view.name.{view.id}"
        st.session_state.setdefault(field, view.name)
        st.text_input("Name of the view", key=field, max_chars=NAME_LENGTH)
        with st.container(horizontal=True):
            st.button("Rename", key=f"view.rename.{view.id}", type="primary", on_click=_rename, args=(view, field))
            st.button(
                "Delete",
                key=f"view.delete.{view.id}",
                on_click=_delete,
                args=(view,),
                help="Its link stops standing here; the runs stay as they are.",
            )


def _rename(view: SavedView, field: str) -> None:
    name, who = str(st.session_state[field]), current_user.whoever()
    _ordered(view, lambda store: store.views.rename(view.id, name, by=who))


def _delete(view: SavedView) -> None:
    who = current_user.whoever()
    _ordered(view, lambda store: store.views.delete(view.id, by=who))


def _ordered(view: SavedView, order: Callable[[Store], bool]) -> None:
    """Give the store an order, before the page runs again, and close the box; what can't be done stands on the page."""
    if command(order) is not None:
        st.session_state[f"view.change.{view.id}"] = False
