"""The cancellation of several runs that are selected in a table."""

from collections.abc import Sequence
from contextlib import suppress

import streamlit as st

from app.ui import current_user, dialogs, permissions
from app.ui.store_access import command, reading
from app.ui.widgets import close_dialog, keep_label
from engine.errors import WrongStatus
from engine.store import RunRow, Store
from engine.store.access.authorization import what
from engine.store.records import ENDED


def cancel_selected(runs: Sequence[RunRow]) -> None:
    """Show the button that cancels the selected runs which have not ended, after a confirmation."""
    active = [run for run in runs if run.status not in ENDED and run.status != "stopping"]
    if not active:
        return
    owners = list(dict.fromkeys(run.owner for run in active))
    named = what("run", [run.id for run in active])
    if st.button("Cancel", key="runs.cancel", **permissions.control("cancel", owners, what=named)):
        dialogs.open_soon(ask_cancel_all, [run.id for run in active])


@st.dialog("Cancel the selected runs?")
def ask_cancel_all(run_ids: Sequence[int]) -> None:
    """Ask for confirmation, then cancel; runs that ended meanwhile stay as they are."""

    def cancel(store: Store) -> int:
        for run_id in run_ids:
            with suppress(WrongStatus):
                store.runs.cancel(run_id, by=current_user.whoever())
        return len(run_ids)

    with reading() as reader:
        statuses = [run.status for run in reader.runs.some(run_ids) if run.status not in ENDED]
    left = len(statuses)
    if not left:
        close_dialog("The selected runs have ended. There is nothing to cancel.")
        return
    count = "1 run" if left == 1 else f"{left:,} runs"
    st.write(f"{count} will be removed from the queue or stopped. Recorded data is kept.")
    with st.container(horizontal=True):
        done = command(cancel) if st.button(f"Cancel {count}", type="primary", key="runs.cancel-all") else None
        if done is not None or st.button(keep_label(statuses, "it" if left == 1 else "them")):
            st.rerun()
