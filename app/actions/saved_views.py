"""Saved views: a named address of a page, shared with the lab. Its owner can rename or delete it."""

from collections.abc import Callable
from functools import partial
from urllib.parse import parse_qs

import streamlit as st
from markupsafe import Markup

from app.core.assets import at
from app.ui import current_user
from app.ui.html import as_text, block, joined, link, quiet, when
from app.ui.store_access import command
from engine.store import Reader, SavedView, Store
from engine.store.runs.annotations import NAME_LENGTH


def view_menu(reader: Reader, page: str, query: str, *earlier: str) -> None:
    """Show the menu of the saved views of a page and of `earlier` pages that it replaced, named after the person's own
    that is shown (the one saved last, if several have this address), and the form that saves the page's query under a
    name.
    """
    found = _of(reader, page, *earlier)
    if found:
        shown = [view for view in found if parse_qs(view.query) == parse_qs(query)]
        own = [view for view in shown if view.owner == current_user.name()]
        last = max(own, key=lambda view: (view.saved_at, view.id)).name if own else ""
        with st.popover(as_text(f"View: {last}") if last else "Saved views", key=f"{page}.views"):
            st.html(joined(_line(view, "shown now, " if view in shown else "") for view in found))
    if ordered := st.session_state.pop(f"{page}.ordered", None):
        _save(page, *ordered)
    with (
        st.popover("Save view", key=f"{page}.saving.open", on_change="rerun", **current_user.control("save view")),
        st.form(f"{page}.saving", border=False),
    ):
        st.text_input("View name", key=f"{page}.name", max_chars=NAME_LENGTH, placeholder="e.g. Speed by trainers")
        st.form_submit_button("Save", key=f"{page}.save", on_click=_order_saving, args=(page, query))


def _order_saving(page: str, query: str) -> None:
    """Close the popover, which would cover the dialog that asks for the name, and save the view on the next
    rerun.
    """
    st.session_state[f"{page}.saving.open"] = False
    st.session_state[f"{page}.ordered"] = (st.session_state[f"{page}.name"], query)


def _save(page: str, name: str, query: str) -> None:
    current_user.require_name(partial(_save, page, name, query))
    if command(lambda store: store.views.save(name, page, query, owner=current_user.whoever())) is not None:
        st.toast("View saved. Everyone in the lab can open it from Home and from this page.")


def saved_views(reader: Reader, page: str) -> None:
    """List the lab's saved views of a page, each with its link; its owner may rename or delete it."""
    if found := _of(reader, page):
        st.header("Saved views", anchor=False)
    for view in found:
        entry(view)


def _of(reader: Reader, *pages: str) -> list[SavedView]:
    return [view for page in pages for view in reader.views.find(page=page)]


def _line(view: SavedView, note: str = "") -> Markup:
    whose = quiet(f"{note}by {view.owner}, " + when(view.saved_at))
    return block("pl-said", joined([link(view.name, at(f"/{view.page}?{view.query}")), whose], " "))


def entry(view: SavedView, *, with_page: bool = False) -> None:
    """Show one view, with the name of its page if `with_page`."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.html(_line(view, f"{view.page.capitalize()}, " if with_page else ""), width="stretch")
        if is_to_change(view):
            _change(view)


def is_to_change(view: SavedView) -> bool:
    """Return whether the person may rename and delete a view; in a lab without accounts only its owner, by courtesy."""
    here = current_user.standing()
    return view.owner == here.name if here.open else here.may("rename view", [view.owner])


def _change(view: SavedView) -> None:
    with st.popover("Edit", key=f"view.change.{view.id}", type="tertiary", on_change="rerun") as opened:
        if not opened.open:
            return
        field = f"view.name.{view.id}"
        st.session_state.setdefault(field, view.name)
        st.text_input("View name", key=field, max_chars=NAME_LENGTH)
        with st.container(horizontal=True):
            st.button("Rename", key=f"view.rename.{view.id}", type="primary", on_click=_rename, args=(view, field))
            st.button(
                "Delete",
                key=f"view.delete.{view.id}",
                on_click=_delete,
                args=(view,),
                help="Deletes the saved view; its runs are kept.",
            )


def _rename(view: SavedView, field: str) -> None:
    name, who = str(st.session_state[field]), current_user.whoever()
    _ordered(view, lambda store: store.views.rename(view.id, name, by=who))


def _delete(view: SavedView) -> None:
    who = current_user.whoever()
    _ordered(view, lambda store: store.views.delete(view.id, by=who))


def _ordered(view: SavedView, order: Callable[[Store], bool]) -> None:
    """Run a command before the page reruns and close the popover; an error is shown on the page."""
    if command(order) is not None:
        st.session_state[f"view.change.{view.id}"] = False
