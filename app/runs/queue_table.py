"""The queue on the Runs page: waiting runs in start order, with the reason and the estimated start of each."""

from collections.abc import Mapping

import streamlit as st

from app.core.formatting import duration
from app.ui.html import nowrap, run_link, table, wide
from app.ui.run_state import waiting
from app.ui.widgets import title_of
from engine.queue.forecast import Wait


def show_queue(waits: Mapping[int, Wait], total: int, held: int) -> None:
    """Show the queue, collapsed; nothing if no run is waiting. `held` of its `total` runs are on hold."""
    if not waits:
        return
    with st.expander(f"Queue: {waiting(total, held)}"):
        rows = [_row(wait) for wait in waits.values()]
        headers = ("Position", "Run", "Owner", "Priority", "Duration", "Estimated start", "Reason")
        st.html(table(headers, rows, caption="Queue in start order"))
        if total > len(waits):
            st.caption(f"First {len(waits)} of {total:,}")


def _row(wait: Wait) -> list[str]:
    run = wait.run
    place = "–" if wait.position is None else f"{wait.position:,}"
    limited = " (limit)" if wait.takes and wait.takes.whole_s is not None else ""
    takes = f"{duration(wait.takes.median)}{limited}" if wait.takes else "–"
    starts = wait.start or "–"
    return [
        place,
        wide(run_link(f"{run.id}: {title_of(run)}", run.id)),
        run.owner,
        run.priority,
        *map(nowrap, (takes, starts)),
        wide(wait.reason),
    ]
