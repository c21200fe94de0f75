"""Annotations of one or several runs: star, tags, archive, baseline."""

from collections.abc import Callable, Sequence
from functools import partial
from urllib.parse import parse_qs

import streamlit as st
from markupsafe import Markup

from app.core.assets import at
from app.ui import current_user
from app.ui.html import as_text, block, joined, link, quiet, when
from app.ui.store_access import command
from app.ui.widgets import PAGES
from engine.errors import counted
from engine.store import Reader, RunRow, SavedView, Store
from engine.store.access.authorization import what
from engine.store.records import ENDED, Run
from engine.store.runs.annotations import NAME_LENGTH
from engine.store.runs.commands import TAG_LENGTH

_Back = Callable[[Sequence[int], Store, str], Sequence[int]]
"""What undoes a change of runs."""
_LAST = "mark.last"


VIA_AGENT = "via agent"


def marks(run: Run | RunRow) -> dict[str, str]:
    """Return a run's marks in words, each with the person who set it or the agent that launched the run."""
    return {
        word: by
        for word, by in (
            *(("baseline", run.pinned_by), ("star", run.starred_by), ("archived", run.archived_by)),
            (VIA_AGENT, run.agent),
        )
        if by
    }


def mark_selected(runs: Sequence[RunRow], one: RunRow | None = None, baseline: Run | RunRow | None = None) -> None:
    """Show the actions for the runs that are selected in a table.

    They run at the start of the next rerun (`current_user.carry_out_waiting`), on the runs that were selected when the
    button was pressed: the table may have other rows by then. `one` is the single run, or stands for the single group,
    and `baseline` is the one that it would replace.
    """
    ids, owners, named = tuple(run.id for run in runs), _owners(runs), _named(runs)
    if any(not run.starred_by for run in runs):
        stands = current_user.control("star", owners, what=named, help="The gc command keeps starred runs.")
        _mark("Star", "star", partial(_annotate, "star", ids), "starred", stands, "unstar")
    if any(run.starred_by for run in runs):
        stands = current_user.control("unstar", owners, what=named)
        _mark("Unstar", "unstar", partial(_annotate, "unstar", ids), "unstarred", stands, "star")
    with (
        st.popover("Tag", key="mark.tags", on_change="rerun", **current_user.control("tag", owners, what=named)),
        st.form("mark.tagging", border=False),  # Enter in the field adds the tag
    ):
        st.text_input(
            "Tag",
            key="mark.tag",
            max_chars=TAG_LENGTH,
            placeholder="e.g. thesis",
            help=f"1 to {TAG_LENGTH} characters, also several words.",
        )
        with st.container(horizontal=True):
            st.form_submit_button("Add tag", key="mark.tag.add", on_click=_tag, args=(ids, True), type="primary")
            st.form_submit_button("Remove tag", key="mark.tag.remove", on_click=_tag, args=(ids, False))
    if one and not one.pinned_by:
        stands = _pinning(one, baseline)
        _mark("Pin as baseline", "pin", lambda store, who: pinned(store, one.id, who), "pinned as baseline", stands)
    if one and one.pinned_by:
        stands = current_user.control("unpin", [one.owner], what=_named([one]))
        _mark("Unpin", "unpin", lambda store, who: store.annotations.unpin(one.id, by=who), "unpinned", stands)
    over = [run for run in runs if run.status in ENDED and not run.archived_by]
    ended = tuple(run.id for run in over)
    if over:
        words = "Hides the runs from the tables without deleting anything. Show archived runs to see them."
        stands = current_user.control("archive", _owners(over), what=_named(over), help=words)
        _mark("Archive", "archive", partial(_annotate, "archive", ended), "archived", stands, "unarchive")
    if any(run.archived_by for run in runs):
        stands = current_user.control("unarchive", owners, what=named)
        _mark("Unarchive", "restore", partial(_annotate, "unarchive", ids), "unarchived", stands, "archive")


def undo_last() -> None:
    """Show the button that takes back the last change of the selected runs' marks, until the next one."""
    if last := st.session_state.get(_LAST):
        done, changed, back = last
        st.button(
            f"Undo: {counted(len(changed), 'run')} {done}",
            key="mark.undo",
            on_click=order_soon,
            args=(partial(back, changed), "changed back"),
        )


def _annotate(name: str, ids: Sequence[int], store: Store, who: str) -> list[int]:
    """Give a command of annotations, by its name."""
    changed: list[int] = getattr(store.annotations, name)(ids, by=who)
    return changed


def _mark(
    label: str,
    key: str,
    order: Callable[[Store, str], Sequence[int]],
    done: str,
    stands: current_user.Control,
    back: str = "",
) -> None:
    """Show a button; the command `back` undoes it."""
    undo = partial(_annotate, back) if back else None
    st.button(label, key=f"mark.{key}", on_click=order_soon, args=(order, done, undo), **stands)


def marks_of(run: Run, baseline: Run | RunRow | None = None) -> None:
    """Show the marks of one run in a popover, each with a button that sets or removes it; `baseline` is the one that it
    would replace.
    """
    ids = [run.id]
    words = "Star, baseline, archive; name, tags and note."
    with st.popover("Marks", **current_user.control("star", [run.owner], what=f"Run {run.id}", help=words)):
        query = {"run": str(run.id), "section": "Notes"}
        st.page_link(PAGES["run"], label="Name, tags and note", query_params=query)
        if run.starred_by:
            _button(run, "Unstar", lambda store, who: store.annotations.unstar(ids, by=who))
        else:
            _button(run, "Star", lambda store, who: store.annotations.star(ids, by=who))
        if run.pinned_by:
            _button(run, "Unpin", lambda store, who: store.annotations.unpin(run.id, by=who))
        else:
            _button(
                run,
                "Pin as baseline",
                lambda store, who: store.annotations.pin(run.id, by=who),
                _pinning(run, baseline),
            )
        if run.archived_by:
            _button(run, "Unarchive", lambda store, who: store.annotations.unarchive(ids, by=who))
        elif run.active:
            st.caption("It can be archived after it has ended.")
        else:
            _button(run, "Archive", lambda store, who: store.annotations.archive(ids, by=who))


def baseline_beside(reader: Reader, experiment: str) -> RunRow | None:
    """Return the baseline that another run would replace; None also for persons who may replace anyone's baseline."""
    return None if current_user.may("pin", [""]) else reader.runs.pinned().get(experiment)


def _pinning(run: Run | RunRow, baseline: Run | RunRow | None) -> current_user.Control:
    """Return the state of the button that pins a run as baseline: it unpins another run, which the person must be
    allowed to change too.
    """
    others = [baseline] if baseline and baseline.id != run.id else []
    return current_user.control(
        "pin",
        [run.owner, *(each.owner for each in others)],
        what="The run, or the baseline that it would replace,",
    )


def _owners(runs: Sequence[RunRow]) -> list[str]:
    return list(dict.fromkeys(run.owner for run in runs))


def _named(runs: Sequence[RunRow]) -> str:
    return what("run", [run.id for run in runs])


def command_button(
    label: str, key: str, order: Callable[[Store, str], object], stands: current_user.Control | None = None
) -> None:
    """Show one button that gives a command; if the store refuses it, its error is shown below."""

    def give(store: Store) -> bool:
        order(store, current_user.whoever())
        return True

    if st.button(label, key=key, width="stretch", **(stands or current_user.off(None))) and command(give):
        st.rerun()


def _button(
    run: Run, label: str, order: Callable[[Store, str], object], stands: current_user.Control | None = None
) -> None:
    command_button(label, f"mark-{label}-{run.id}", order, stands)


def order_soon(order: Callable[[Store, str], Sequence[int]], done: str, back: _Back | None = None) -> None:
    """Give an order in the next rerun, as a callback of a fragment can't show a message; `back` undoes it."""
    current_user.begin_with(partial(_give, order, done, back))


def _give(order: Callable[[Store, str], Sequence[int]], done: str, back: _Back | None) -> None:
    current_user.require_name(partial(_give, order, done, back))
    changed = command(lambda store: list(order(store, current_user.whoever())))
    if changed is not None:
        st.session_state[_LAST] = (done, changed, back) if changed and back else None
        st.toast(
            f"{len(changed)} {'run' if len(changed) == 1 else 'runs'} {as_text(done)}."
            if changed
            else "Nothing to change."
        )


def _tag(ids: Sequence[int], add: bool) -> None:
    """Close the popover, which would cover the dialog that asks for the name, and tag on the next rerun."""
    st.session_state["mark.tags"] = False
    tag = str(st.session_state.get("mark.tag", ""))

    def order(is_added: bool, ids: Sequence[int], store: Store, who: str) -> list[int]:
        return (store.annotations.tag if is_added else store.annotations.untag)(ids, tag, by=who)

    done = f"tagged {tag.strip()}" if add else f"untagged {tag.strip()}"
    order_soon(partial(order, add, ids), done, partial(order, not add))


def pinned(store: Store, run_id: int, who: str) -> list[int]:
    """Pin a run and return it."""
    store.annotations.pin(run_id, by=who)
    return [run_id]


# ---- Saved views: a named address of a page, shared with the lab. Its owner can rename or delete it ----------------


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
        st.toast("View saved. Everyone in the lab finds it under Saved views on Home and here, and by Ctrl-K.")


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
