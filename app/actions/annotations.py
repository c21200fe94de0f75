"""What people put on runs, one or several at once: a star, a tag, the archive, the place of a baseline."""

from collections.abc import Callable, Sequence

import streamlit as st

from app.ui import current_user, permissions
from app.ui.html import as_text
from app.ui.store_access import command
from engine.store import Reader, RunRow, Store
from engine.store.access.authorization import what
from engine.store.records import ENDED, Run


def marks(run: Run | RunRow) -> dict[str, str]:
    """Return a run's marks in words, each with who gave it."""
    return {
        word: by
        for word, by in (("baseline", run.pinned_by), ("star", run.starred_by), ("archived", run.archived_by))
        if by
    }


def mark_selected(runs: Sequence[RunRow], baseline: Run | RunRow | None = None) -> None:
    """Show what can be done with the runs that were ticked in a table.

    The orders are given before the page runs again, by the runs that stood there when the button was pressed: by then
    other rows may stand in the table. `baseline` is the one that a single run of them would take the place of.
    """
    ids, owners, named = tuple(run.id for run in runs), _owners(runs), _what(runs)
    if any(not run.starred_by for run in runs):
        st.button(
            "Star",
            key="mark.star",
            on_click=_order,
            args=(lambda store, who: store.annotations.star(ids, by=who), "starred"),
            **permissions.control("star", owners, what=named, help="Stars keep runs from the gc command."),
        )
    if any(run.starred_by for run in runs):
        take_off = permissions.control("unstar", owners, what=named)
        st.button(
            "Take stars off",
            key="mark.unstar",
            on_click=_order,
            args=(lambda store, who: store.annotations.unstar(ids, by=who), "no longer starred"),
            **take_off,
        )
    with st.popover("Tag", key="mark.tags", **permissions.control("tag", owners, what=named)):
        st.text_input("Tag", key="mark.tag", max_chars=40, placeholder="one word, such as thesis")
        with st.container(horizontal=True):
            st.button("Add it", key="mark.tag.add", on_click=_tag, args=(ids, True), type="primary")
            st.button("Take it off", key="mark.tag.remove", on_click=_tag, args=(ids, False))
    if len(runs) == 1 and not runs[0].pinned_by:
        st.button(
            "Pin as baseline",
            key="mark.pin",
            on_click=_order,
            args=(lambda store, who: pinned(store, ids[0], who), "the baseline of its experiment"),
            **_pinning(runs[0], baseline),
        )
    if len(runs) == 1 and runs[0].pinned_by:
        let_go = permissions.control("unpin", owners, what=named)
        st.button(
            "Unpin",
            key="mark.unpin",
            on_click=_order,
            args=(lambda store, who: store.annotations.unpin(ids[0], by=who), "no longer a baseline"),
            **let_go,
        )
    over = [run for run in runs if run.status in ENDED and not run.archived_by]
    ended = tuple(run.id for run in over)
    if over:
        words = "They leave the tables; nothing is lost, and the switch for archived runs shows them."
        put_away = permissions.control("archive", _owners(over), what=_what(over), help=words)
        st.button(
            "Archive",
            key="mark.archive",
            on_click=_order,
            args=(lambda store, who: store.annotations.archive(ended, by=who), "archived"),
            **put_away,
        )
    if any(run.archived_by for run in runs):
        take_out = permissions.control("unarchive", owners, what=named)
        st.button(
            "Restore",
            key="mark.restore",
            on_click=_order,
            args=(lambda store, who: store.annotations.unarchive(ids, by=who), "back in the tables"),
            **take_out,
        )


def marks_of(run: Run, baseline: Run | RunRow | None = None) -> None:
    """Show the marks of one run, folded, each with a button that puts it on or takes it off; `baseline` is the one
    whose place it would take.
    """
    ids, who = [run.id], current_user.whoever()
    words = "Star, baseline, archive. Name, tags and note are under Notes."
    with st.popover("Marks", **permissions.control("star", [run.owner], what=f"Run {run.id}", help=words)):
        if run.starred_by:
            _button(run, "Take the star off", lambda store: store.annotations.unstar(ids, by=who))
        else:
            _button(run, "Star", lambda store: store.annotations.star(ids, by=who))
        if run.pinned_by:
            _button(run, "Unpin", lambda store: store.annotations.unpin(run.id, by=who))
        else:
            _button(
                run, "Pin as baseline", lambda store: store.annotations.pin(run.id, by=who), _pinning(run, baseline)
            )
        if run.archived_by:
            _button(run, "Restore", lambda store: store.annotations.unarchive(ids, by=who))
        elif run.active:
            st.caption("It can be archived once it has ended.")
        else:
            _button(run, "Archive", lambda store: store.annotations.archive(ids, by=who))


def baseline_beside(reader: Reader, experiment: str) -> RunRow | None:
    """Return the run whose place another one would take as baseline; None too for those to whom it is all one whose
    that is.
    """
    return None if current_user.may("pin", [""]) else reader.runs.pinned().get(experiment)


def _pinning(run: Run | RunRow, baseline: Run | RunRow | None) -> permissions.Control:
    """Return how the button stands that makes a run the baseline: it takes the mark off another run, which has to be
    the person's too.
    """
    others = [baseline] if baseline and baseline.id != run.id else []
    return permissions.control(
        "pin",
        [run.owner, *(each.owner for each in others)],
        what="The run, or the baseline that it would take the place of,",
    )


def _owners(runs: Sequence[RunRow]) -> list[str]:
    return list(dict.fromkeys(run.owner for run in runs))


def _what(runs: Sequence[RunRow]) -> str:
    return what("run", [run.id for run in runs])


def _button(run: Run, label: str, order: Callable[[Store], object], stands: permissions.Control | None = None) -> None:
    def give(store: Store) -> bool:
        order(store)
        return True

    if st.button(label, key=f"mark-{label}-{run.id}", width="stretch", **(stands or permissions.off(None))) and command(
        give
    ):
        st.rerun()


def _order(order: Callable[[Store, str], Sequence[int]], said: str) -> None:
    who = current_user.whoever()
    changed = command(lambda store: list(order(store, who)))
    if changed is not None:
        st.toast(
            f"{len(changed)} {'run is' if len(changed) == 1 else 'runs are'} {as_text(said)} now."
            if changed
            else "There was nothing to change."
        )


def _tag(ids: Sequence[int], add: bool) -> None:
    tag = str(st.session_state.get("mark.tag", ""))
    _order(
        lambda store, who: (store.annotations.tag if add else store.annotations.untag)(ids, tag, by=who),
        f"tagged {tag.strip()}" if add else f"no longer tagged {tag.strip()}",
    )


def pinned(store: Store, run_id: int, who: str) -> list[int]:
    """Pin a run and return it."""
    store.annotations.pin(run_id, by=who)
    return [run_id]
