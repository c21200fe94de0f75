"""Saved views of the Compare page: a name for an address, for the whole lab; its owner alone deletes one."""

import streamlit as st

from app import dialogs, person
from app.asking import command
from app.compare_view import PATH, View, query_of, with_query
from app.markup import as_text, when
from engine.store import Reader, SavedView, Store
from engine.store.views import NAME_LENGTH

PAGE = PATH.removeprefix("/")
_WAITS = "compare.saves"
WHY = "It stands beside the views that you save, and you alone can delete them. You are asked once."


def save_form(view: View) -> None:
    """Offer to keep the view under a name."""
    with st.popover("Save view"), st.form("compare.saving", border=False):
        name = st.text_input("Name of the view", key="compare.name", max_chars=NAME_LENGTH, placeholder="Speed by trainers")
        if st.form_submit_button("Save", key="compare.save"):
            st.session_state[_WAITS] = (name, with_query(query_of(view)).partition("?")[2])
            if person.name() is None:
                dialogs.open_soon(person.ask, WHY, "Save and keep the view")
            carry_out_waiting()


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
                st.markdown(f"[{as_text(view.name)}]({_address(view)}) by {as_text(view.owner)}", width="stretch")
                st.html(f'<span class="pl-quiet">{when(view.saved_at)}</span>', width="content")
                if view.owner == person.name():
                    st.button("Delete", key=f"compare.delete.{view.id}", on_click=_delete, args=(view,))


def _delete(view: SavedView) -> None:
    """Delete one view; what can't be done stands on the page."""
    who = person.whoever()

    def delete(store: Store) -> bool:
        return store.delete_view(view.id, by=who)

    command(delete)


def _address(view: SavedView) -> str:
    return f"{PATH}?{view.query}".replace(")", "%29").replace("(", "%28").replace(" ", "%20")
