"""The leftovers of the machine on the Machine page, and the button that cleans them up."""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial

import streamlit as st

from app.core.formatting import size
from app.ui import current_user, dialogs
from app.ui.html import as_text, nowrap, run_link, table, wide
from engine.errors import EngineError
from engine.home import Home
from engine.system.cleanup import Cleared
from engine.system.run_files import aside_of
from engine.upkeep.leftovers import Kind, Leftover, clean

SHOWN = 20
"""Entries of a kind that are listed one by one."""
_CLEANED = "machine.cleaned"
_WAYS: dict[Kind, tuple[str, str, str]] = {
    "process": ("process", "processes", "terminated"),
    "folder": ("folder", "folders", "moved to {aside}"),
    "shared memory": ("shared memory segment", "shared memory segments", "deleted"),
    "file": ("file", "files", "deleted"),
}


def section(found: Sequence[Leftover]) -> None:
    """Show the leftovers, the buttons to refresh and clean up, and the result of the last cleanup."""
    ours = [one for one in found if one.is_ours]
    with st.container(horizontal=True, vertical_alignment="center"):
        st.header(
            "Leftovers",
            anchor=False,
            width="stretch",
            help="Processes, files and shared memory that remain after a run has ended, for example after a crash.",
        )
        st.button(
            "Refresh",
            help="Scans processes, folders and shared memory again, as opening the page does.",
        )
        if ours and st.button(
            "Clean up",
            key="clean-up",
            **current_user.control("clean up", help="Lists what will be done and asks for confirmation."),
        ):
            dialogs.open_soon(ask_clean, ours)
    _say_cleaned()
    if not found:
        st.write("No leftovers: no process, folder, file or shared memory without a live run.")
        return
    st.html(table(["Kind", "Name", "Size", "Reason"], list(_rows(found)), caption="Leftovers"))
    if len(ours) < len(found):
        st.caption(
            "Entries that may belong to another program are only listed. Delete them with rm if nothing needs them."
        )


@st.dialog("Clean up leftovers?")
def ask_clean(ours: Sequence[Leftover]) -> None:
    """List what will be done and, once confirmed, do it."""
    for line in _plan(ours):
        st.markdown(f"- {line}")
    st.write(
        "Each entry is checked again first; nothing that a live run needs is touched. The runner's log records your "
        "name."
    )
    with st.container(horizontal=True):
        if st.button("Clean up", type="primary", key="clean-up-now"):
            _clean(ours)
        if st.button("Cancel"):
            st.rerun()


def _clean(ours: Sequence[Leftover]) -> None:
    current_user.require_name(partial(_clean, ours))
    try:
        st.session_state[_CLEANED] = clean(Home.find(), ours, by=current_user.whoever())
    except (EngineError, OSError) as error:
        st.error(as_text(str(error)))
    else:
        st.rerun()


def _plan(ours: Sequence[Leftover]) -> Iterator[str]:
    """Yield the action for each kind, as Markdown."""
    counts = Counter(one.kind for one in ours)
    for kind, (name, names, way) in _WAYS.items():
        if count := counts[kind]:
            size_ = sum(one.size_bytes or 0 for one in ours if one.kind == kind)
            held = f" ({size(size_)})" if size_ else ""
            yield as_text(
                f"{count:,} {name if count == 1 else names}{held} will be {way.format(aside=aside_of(Home.find()))}."
            )


def _say_cleaned() -> None:
    """Show the result of the last cleanup, once."""
    cleaned = st.session_state.pop(_CLEANED, None)
    if not isinstance(cleaned, Cleared):
        return
    if cleaned.removed:
        st.success(as_text(f"Cleaned up: {_some(cleaned.removed)}."))
    if cleaned.left:
        st.error(as_text(f"Could not be cleaned up: {_some(cleaned.left)}."))
    if not cleaned.removed and not cleaned.left:
        st.info("Nothing left to clean up: the listed entries are gone or in use.")


def _some(words: Sequence[str]) -> str:
    return ", ".join(words[:SHOWN]) + (f" and {len(words) - SHOWN:,} more" if len(words) > SHOWN else "")


def _rows(found: Sequence[Leftover]) -> Iterator[list[str]]:
    """Yield a row for each of the first entries of a kind, and one row that counts the others."""
    for kind, (_, names, _) in _WAYS.items():
        of_kind = [one for one in found if one.kind == kind]
        for one in of_kind[:SHOWN]:
            yield [nowrap(one.kind), wide(one.name, breaks=True), nowrap(_size(one.size_bytes)), _why(one)]
        if rest := of_kind[SHOWN:]:
            yield [
                nowrap(kind),
                f"{len(rest):,} more {names}",
                nowrap(_size(sum(one.size_bytes or 0 for one in rest))),
                "",
            ]


def _why(one: Leftover) -> str:
    """Return the reason, as HTML with a link to its run, and whether the entry is only listed."""
    reason = one.why
    called = f"run {one.run_id}"
    if one.run_id and called in one.why:
        before, _, after = one.why.partition(called)
        reason = before + run_link(called, one.run_id) + after
    return wide(reason if one.is_ours else reason + " It may belong to another program.", breaks=True)


def _size(bytes_: int | None) -> str:
    return "–" if bytes_ is None else size(bytes_)
