"""Saved views of the Compare page: a name for an address, for the whole lab; its owner alone renames or deletes one."""

import streamlit as st

from app.actions.saved_views import entry
from app.links.compare import PATH, CompareView, query_of, with_query
from app.ui import current_user, dialogs, permissions
from app.ui.store_access import command
from engine.store import Reader, Store
from engine.store.runs.saved_views import NAME_LENGTH

PAGE = PATH.removeprefix("/")
_NAME, _OPEN, _ORDERED, _WAITS = "compare.name", "compare.saving.open", "compare.ordered", "compare.saves"
WHY = "It stands beside the views that you save, and you alone can rename or delete them. You are asked once."


def save_form(view: CompareView) -> None:
    """Offer to keep the view under a name."""
    if ordered := st.session_state.pop(_ORDERED, None):
        st.session_state[_WAITS] = ordered
        if current_user.name() is None:
            dialogs.open_soon(current_user.ask_name, WHY, "Save and keep the view")
        carry_out_waiting()
    with (
        st.popover("Save view", key=_OPEN, on_change="rerun", **permissions.control("save view")),
        st.form("compare.saving", border=False),
    ):
        st.text_input("Name of the view", key=_NAME, max_chars=NAME_LENGTH, placeholder="Speed by trainers")
        st.form_submit_button(
            "Save", key="compare.save", on_click=_order, args=(with_query(query_of(view)).partition("?")[2],)
        )


def _order(query: str) -> None:
    """Close the popover, which would lie over a question for the person's name, and have the view saved when the page
    runs.
    """
    st.session_state[_OPEN] = False
    st.session_state[_ORDERED] = (st.session_state[_NAME], query)


def carry_out_waiting() -> None:
    """Save the view that waited for its owner's name, once there is one."""
    if current_user.name() is None or (wanted := st.session_state.pop(_WAITS, None)) is None:
        return
    name, query = wanted

    def save(store: Store) -> int:
        return store.views.save(name, PAGE, query, owner=current_user.whoever())

    if command(save) is not None:
        st.toast(
            "Saved. It stands on the Home page and in the list of saved views on this one, for everyone in the lab."
        )


def saved_views(reader: Reader, *, expanded: bool) -> None:
    """List the lab's saved views with their links."""
    found = reader.views.find(page=PAGE)
    if not found:
        return
    with st.expander(f"Saved views ({len(found)})", expanded=expanded):
        for view in found:
            entry(view)
