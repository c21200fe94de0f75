"""The timeline of a run's ranks: what each did, microsecond by microsecond, and what bounds the run."""

import streamlit as st

from app.ui import components
from app.ui.html import as_text
from engine.store import Reader
from engine.store.records import Run


def timeline(run: Run, reader: Reader) -> None:
    """Show the recorded operations of all ranks; the picture loads and zooms by itself."""
    if not reader.traces.newest(run.id):
        if run.active:
            st.write("No operations recorded yet. They appear a moment after all ranks are ready.")
        else:
            st.write("No recorded operations: the run ended before its ranks were ready, or is of an earlier version.")
        return
    components.timeline(run.id, len(reader.details.ranks(run.id)), active=run.active)
    st.caption(
        as_text(
            "All operations are recorded; stored are the start, samples of a few steps, and the end. "
            f"For Perfetto: python -m engine trace {run.id} --out run-{run.id}.json"
        )
    )
