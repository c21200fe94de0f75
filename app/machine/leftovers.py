"""What is left over on the machine, as the Machine page shows it, and the button that has it taken away."""

from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape

import streamlit as st

from app.core.formatting import size
from app.ui import current_user, dialogs, permissions
from app.ui.html import as_text, run_link, table
from engine.errors import EngineError
from engine.home import Home
from engine.system.cleanup import Cleared
from engine.upkeep.leftover import Kind, Leftover
from engine.upkeep.leftovers import clean

SHOWN = 20
"""So many of a kind are listed one by one."""
_CLEANED = "machine.cleaned"
_WAYS: dict[Kind, tuple[str, str, str]] = {
    "process": ("process", "processes", "ended"),
    "folder": ("folder", "folders", "moved to {aside}"),
    "shared memory": ("segment of shared memory", "segments of shared memory", "deleted"),
    "file": ("file", "files", "deleted"),
}


def section(found: Sequence[Leftover]) -> None:
    """Show what is left over, with the buttons that look again and clean up, and what the last cleaning did."""
    ours = [one for one in found if one.is_ours]
    with st.container(horizontal=True, vertical_alignment="center"):
        st.header("Left over", anchor=False, width="stretch")
        st.button(
            "Look again",
            help="Processes, folders and shared memory are looked through when the page is opened, and by this button.",
        )
        if ours and st.button(
            "Clean up", key="clean-up", **permissions.control("clean up", help="Asks first, and says what it would do.")
        ):
            dialogs.open_soon(ask_clean, ours)
    _say_cleaned()
    if not found:
        st.write("Nothing is left over: no process, no folder, no file and no shared memory without a live run.")
        return
    st.html(table(["What", "Which", "Size", "Why it is left over"], list(_rows(found)), caption="What is left over"))
    if len(ours) < len(found):
        st.caption(
            "What may be another program's is only shown: once you are sure that nobody needs it, delete it with rm."
        )


@st.dialog("Clean up what is left over?")
def ask_clean(ours: Sequence[Leftover]) -> None:
    """Say what will be done, then do it."""
    for line in _plan(ours):
        st.markdown(f"- {line}")
    st.write(
        "Each is looked at again at that moment; what a live run needs is never touched. Your name stands "
        "beside it in the runner's log."
    )
    with st.container(horizontal=True):
        if st.button("Clean up", type="primary", key="clean-up-now"):
            try:
                st.session_state[_CLEANED] = clean(Home.find(), ours, by=current_user.whoever())
            except (EngineError, OSError) as error:
                st.error(as_text(str(error)))
            else:
                st.rerun()
        if st.button("Leave it"):
            st.rerun()


def _plan(ours: Sequence[Leftover]) -> Iterator[str]:
    """Yield what becomes of each kind, as Markdown."""
    counts = Counter(one.kind for one in ours)
    for kind, (name, names, way) in _WAYS.items():
        if count := counts[kind]:
            size_ = sum(one.size_bytes or 0 for one in ours if one.kind == kind)
            held = f" ({size(size_)})" if size_ else ""
            yield as_text(
                f"{count:,} {name if count == 1 else names}{held} {'is' if count == 1 else 'are'} "
                f"{way.format(aside=Home.find().aside)}."
            )


def _say_cleaned() -> None:
    """Say once what the last cleaning did."""
    cleaned = st.session_state.pop(_CLEANED, None)
    if not isinstance(cleaned, Cleared):
        return
    if cleaned.removed:
        st.success(as_text(f"Cleaned up: {_some(cleaned.removed)}."))
    if cleaned.left:
        st.error(as_text(f"Could not be cleaned up: {_some(cleaned.left)}."))
    if not cleaned.removed and not cleaned.left:
        st.info("There was nothing to clean up any more: what was listed is gone, or in use.")


def _some(words: Sequence[str]) -> str:
    return ", ".join(words[:SHOWN]) + (f" and {len(words) - SHOWN:,} more" if len(words) > SHOWN else "")


def _rows(found: Sequence[Leftover]) -> Iterator[list[str]]:
    """Yield a row for each, of many of a kind for the first, and one that counts the others."""
    for kind, (_, names, _) in _WAYS.items():
        of_kind = [one for one in found if one.kind == kind]
        for one in of_kind[:SHOWN]:
            yield [_nowrap(escape(one.kind)), _wide(escape(one.name)), _nowrap(_size(one.size_bytes)), _why(one)]
        if rest := of_kind[SHOWN:]:
            yield [
                _nowrap(escape(kind)),
                f"{len(rest):,} more {names}",
                _nowrap(_size(sum(one.size_bytes or 0 for one in rest))),
                "",
            ]


def _why(one: Leftover) -> str:
    """Return why it is left over, as HTML with a link to its run, and whether it is only shown."""
    said = escape(one.why)
    if one.run_id:
        said = said.replace(f"run {one.run_id}", run_link(f"run {one.run_id}", one.run_id), 1)
    return _wide(said if one.is_ours else f"{said} It may be another program's.")


def _size(bytes_: int | None) -> str:
    return "–" if bytes_ is None else size(bytes_)


def _nowrap(cell: str) -> str:
    return f'<span class="pl-nowrap">{cell}</span>'


def _wide(cell: str) -> str:
    """Return a cell that keeps some width on a narrow screen, where the table scrolls."""
    return f'<div style="min-width: 12rem; overflow-wrap: anywhere">{cell}</div>'
