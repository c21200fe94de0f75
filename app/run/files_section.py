"""The section Files of a run page: what the run keeps, what it used of other runs, and its experiment's checkpoint."""

import streamlit as st

from app.ui import current_user
from app.ui.html import block, nowrap, run_link, stacked, table, when, wide
from app.ui.kept_files import cards, file_link, is_shown, seen, short_hash
from app.ui.store_access import command
from engine.access.quotas import size
from engine.commands.kept_files import remove_file
from engine.errors import counted
from engine.home import Home
from engine.store import Reader, Store
from engine.store.records import Run
from engine.store.runs.files import KeptFile
from engine.system.checkpoint_state import CHECKPOINT, last_checkpoint

MOST_SHOWN, MOST_LINKS = 24, 6
"""Files that are shown below the list, and runs that a file links."""


def has_files(run: Run, reader: Reader) -> bool:
    """Return whether a run keeps or used files, or has ended with a checkpoint."""
    there = reader.files.of([run.id]) or reader.files.used(run.id)
    return bool(there) or (not run.active and (reader.db.home.run_folder(run.id) / CHECKPOINT).is_file())


def files(run: Run, reader: Reader) -> None:
    """List the files of a run with their lineage, and show pictures, tables and texts."""
    kept, used = reader.files.of([run.id]), reader.files.used(run.id)
    if kept:
        users = reader.files.users(each.sha256 for each in kept)
        rows = [
            [
                wide(file_link(each), breaks=True),
                nowrap(size(each.bytes)),
                short_hash(each.sha256),
                nowrap(when(each.at)),
                _runs(users.get(each.sha256, [])),
            ]
            for each in kept
        ]
        st.html(table(("File", "Size", "SHA-256", "Kept", "Used by"), rows, caption="Files of the run"))
    if used:
        makers = reader.files.makers(each.sha256 for each in used)
        rows = [
            [
                wide(each.name, breaks=True),
                short_hash(each.sha256),
                nowrap(when(each.at)),
                _runs([run_id for run_id in makers.get(each.sha256, []) if run_id != run.id]) or "no longer kept",
            ]
            for each in used
        ]
        st.html(table(("Used file", "SHA-256", "Used", "Made by"), rows, caption="Files of other runs that it used"))
    _checkpoint(run)
    home = Home.find()
    shown = [each for each in kept if is_shown(seen(home, each))]
    if shown:
        order = ("picture", "table", "text")
        shown.sort(key=lambda each: order.index(seen(home, each).kind))
        st.html(block("pl-files", cards(home, [(each, each.name) for each in shown[:MOST_SHOWN]])))
    if len(shown) > MOST_SHOWN:
        st.caption(f"The first {MOST_SHOWN} of {counted(len(shown), 'file')} with a picture, table or text.")
    if kept:
        _removal(run, kept)


def _runs(run_ids: list[int]) -> str:
    links = [run_link(f"run {run_id}", run_id) for run_id in run_ids[:MOST_LINKS]]
    more = [f"and {len(run_ids) - MOST_LINKS:,} more"] if len(run_ids) > MOST_LINKS else []
    return stacked([*links, *more])


def _checkpoint(run: Run) -> None:
    path = Home.find().run_folder(run.id) / CHECKPOINT
    if run.active or not path.is_file():
        return
    found = last_checkpoint(path.parent)
    at = f" of step {found.step:,}" if found else ""
    st.caption(
        f"The experiment's checkpoint{at} ({size(path.stat().st_size)}) is in the run's folder; Resume and Clone start "
        "from there. It is not among the kept files."
    )


def _removal(run: Run, kept: list[KeptFile]) -> None:
    """Offer to remove a file."""
    with st.popover("Remove a file", **current_user.control("remove file", [run.owner], what=f"Run {run.id}")):
        name = st.selectbox("File", [each.name for each in kept], key=f"file-{run.id}")
        st.caption("Its content goes too, unless another run keeps it. This can't be undone.")

        def remove(store: Store) -> bool:
            remove_file(store, run.id, name, by=current_user.whoever())
            return True

        if st.button("Remove", key=f"remove-file-{run.id}", type="primary") and command(remove):
            st.rerun()
