"""The queue on the Runs page: who waits, in the order in which they start, with the reason and the estimate of each."""

from collections.abc import Mapping
from html import escape

import streamlit as st

from app.core.formatting import duration
from app.ui.html import run_link, table, wide
from app.ui.run_state import waiting
from app.ui.widgets import title_of
from engine.queue.forecast import Wait, start_in_words


def show_queue(waits: Mapping[int, Wait], total: int, held: int) -> None:
    """Show the queue, folded; nothing where no run waits. `held` of its `total` runs are on hold."""
    if not waits:
        return
    with st.expander(f"Queue: {waiting(total, held)}"):
        rows = [_row(wait) for wait in waits.values()]
        headers = ("Run", "Owner", "Priority", "Takes", "Starts", "Why it waits")
        st.html(table(headers, rows, caption="The queue in the order in which its runs start"))
        if total > len(waits):
            st.caption(f"The first {len(waits)} of {total:,}.")


def _row(wait: Wait) -> list[str]:
    run = wait.run
    takes = duration(wait.takes.median) if wait.takes else "–"
    starts = start_in_words(wait.starts_in_s) or "–"
    return [
        wide(run_link(f"{run.id}: {title_of(run)}", run.id)),
        escape(run.owner),
        run.priority,
        *(f'<span class="pl-nowrap">{escape(words)}</span>' for words in (takes, starts)),
        wide(escape(wait.reason)),
    ]
