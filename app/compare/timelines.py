"""The timelines of the compared runs, one below the other."""

from collections.abc import Sequence

import streamlit as st

from app.ui import components
from app.ui.html import as_text, run_link
from app.ui.widgets import title_of
from engine.store import Reader
from engine.store.records import ENDED, RunRow

MOST = 4
"""Timelines shown at a time; each has its own stretch and zoom."""


def timelines(runs: Sequence[RunRow], reader: Reader) -> None:
    """Show the timelines of the first runs that have one."""
    recorded = [run for run in runs if reader.traces.newest(run.id)]
    if not recorded:
        st.write("None of these runs has recorded operations: they ended before their ranks were ready, or are older.")
        return
    for run in recorded[:MOST]:
        st.html(run_link(f"{run.id}: {title_of(run)}", run.id))
        components.timeline(run.id, len(reader.details.ranks(run.id)), active=run.status not in ENDED)
    if len(recorded) > MOST:
        st.caption(as_text(f"The first {MOST} of {len(recorded)} runs with recorded operations are shown."))
