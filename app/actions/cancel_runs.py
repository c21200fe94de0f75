"""The cancellation of several runs that are selected in a table."""

from collections.abc import Sequence
from contextlib import suppress

import streamlit as st

from app.ui import current_user, dialogs, permissions
from app.ui.store_access import command
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

    count = "1 run" if len(run_ids) == 1 else f"{len(run_ids):,} runs"
    st.write(f"{count} will be removed from the queue or stopped. Recorded data is kept.")
    with st.container(horizontal=True):
        done = command(cancel) if st.button(f"Cancel {count}", type="primary") else None
        if done is not None or st.button("Keep running"):
            st.rerun()
