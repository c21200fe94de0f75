"""Saved views of the Compare page: a name for an address, for the whole lab; its owner alone deletes one."""

from html import escape

import streamlit as st

from app import dialogs, person
from app.asking import command
from app.compare_view import PATH, View, query_of, with_query
from app.markup import when
from engine.store import Reader, SavedView, Store
from engine.store.views import NAME_LENGTH

PAGE = PATH.removeprefix("/")
_NAME, _OPEN, _ORDERED, _WAITS = "compare.name", "compare.saving.open", "compare.ordered", "compare.saves"
WHY = "It stands beside the views that you save, and you alone can delete them. You are asked once."


def save_form(view: View) -> None:
    """Offer to keep the view under a name."""
    if ordered := st.session_state.pop(_ORDERED, None):
        st.session_state[_WAITS] = ordered
        if person.name() is None:
            dialogs.open_soon(person.ask, WHY, "Save and keep the view")
        carry_out_waiting()
    with st.popover("Save view", key=_OPEN, on_change="rerun"), st.form("compare.saving", border=False):
        st.text_input("Name of the view", key=_NAME, max_chars=NAME_LENGTH, placeholder="Speed by trainers")
        st.form_submit_button("Save", key="compare.save", on_click=_order, args=(with_query(query_of(view)).partition("?")[2],))


def _order(query: str) -> None:
    """Close the popover, which would lie over a question for the person's name, and have the view saved when the page runs."""
    st.session_state[_OPEN] = False
    st.session_state[_ORDERED] = (st.session_state[_NAME], query)


def carry_out_waiting() -> None:
    """Save the view that waited for its owner's name, once there is one."""
    if person.name() is None or (wanted := st.session_state.pop(_WAITS, None)) is None:
        return
    name, query = wanted

    def save(store: Store) -> int:
        return store.save_view(name, PAGE, query, owner=person.whoever())

    if command(save) is not None:
        st.toast("Saved. It stands in the list of saved views on this page, for everyone in the lab.")


def saved_views(reader: Reader, *, expanded: bool) -> None:
    """List the lab's saved views with their links."""
    found = reader.views(page=PAGE)
    if not found:
        return
    with st.expander(f"Saved views ({len(found)})", expanded=expanded):
        for view in found:
            with st.container(horizontal=True, vertical_alignment="center"):
                link = f'<a href="{escape(f"{PATH}?{view.query}")}">{escape(view.name)}</a>'
                st.html(f'{link} <span class="pl-quiet">by {escape(view.owner)}, {when(view.saved_at)}</span>', width="stretch")
                if view.owner == person.name():
                    st.button("Delete", key=f"compare.delete.{view.id}", on_click=_delete, args=(view,))


def _delete(view: SavedView) -> None:
    """Delete one view; what can't be done stands on the page."""
    who = person.whoever()

    def delete(store: Store) -> bool:
        return store.delete_view(view.id, by=who)

    command(delete)
