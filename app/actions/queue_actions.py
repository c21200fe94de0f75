"""The queue in words and buttons: what a run would meet before it is launched, why it waits, and what can be done about
that.
"""

from collections.abc import Callable, Mapping
from html import escape
from typing import Any

import streamlit as st

from app.core.formatting import duration
from app.ui import current_user, permissions
from app.ui.html import as_text
from app.ui.store_access import command, reading
from app.ui.widgets import show_facts
from engine.home import Home
from engine.launch_options import PRIORITIES, Priority, Terms
from engine.queue.estimates import Estimate
from engine.queue.forecast import Wait, outlook, prospect, start_in_words
from engine.store import Reader, Store
from engine.store.records import Demand, Run, RunRow


def show_prospect(experiment: str, config: Mapping[str, Any], demand: Demand, asked: Terms) -> None:
    """Say how long like runs took and when this one would start."""
    with reading() as reader:
        found = prospect(
            *(reader, Home.find(), experiment, config, demand),
            owner=current_user.whoever(),
            priority=asked.priority,
            oversubscribe=asked.oversubscribe,
        )
    starts = start_in_words(found.starts_in_s) or "not known when"
    show_facts([("Time", escape(takes(found.takes))), ("Would start", escape(starts))])
    if found.reason:
        st.caption(as_text(f"Launched now, it {found.reason}."))


def takes(found: Estimate | None) -> str:
    """Return how long like runs took, in words."""
    if found is None:
        return "not known: no like run has finished here"
    if found.runs == 1:
        return f"about {duration(found.median)}, from 1 like run"
    return (
        f"about {duration(found.median)} ({duration(found.shortest)} to {duration(found.longest)}), from "
        f"{found.runs} like runs"
    )


def waits(reader: Reader) -> dict[int, Wait]:
    """Return what is known of each waiting run, in the order of the queue."""
    return outlook(reader, Home.find()) if reader.queue.count() else {}


def why(run: Run | RunRow, wait: Wait | None, reader: Reader) -> str:
    """Return why a run waits and when it should start, in a sentence; a run far back has only its place."""
    if wait is None:
        before = reader.queue.position(run.id)
        if before is None:
            return "On hold."
        return (
            "Next in the queue."
            if before == 0
            else f"{before:,} {'run' if before == 1 else 'runs'} before it in the queue."
        )
    starts = start_in_words(wait.starts_in_s) if wait.reason != "starts next" else ""
    said = [_sentence(wait.reason)]
    if starts:
        said.append(f"Should start {starts}.")
    if wait.takes:
        said.append(f"Takes {takes(wait.takes)}.")
    return " ".join(said)


def queue_actions(run: Run) -> None:
    """Show what can be done about a run that waits: hold or release it, move it, change its priority."""
    if run.status != "queued":
        return
    named, owners = f"Run {run.id}", [run.owner]
    prefers = permissions.control("prefer", owners, what=named)
    with st.popover(
        "Queue", **permissions.control("hold", owners, what=named, help="Hold it back, or change its place.")
    ):
        if run.held_by:
            _button("Release", run, lambda store, who: store.queue.release(run.id, by=who))
        else:
            _button("Hold", run, lambda store, who: store.queue.hold(run.id, by=who))
        _button("Move to the front", run, lambda store, who: store.queue.move(run.id, "front", by=who), prefers)
        _button("Move to the back", run, lambda store, who: store.queue.move(run.id, "back", by=who))
        st.caption(f"Its priority is {run.terms.priority}; front and back are those of that priority.")
        for other in (each for each in reversed(PRIORITIES) if each != run.terms.priority):
            _button(
                f"Make its priority {other}", run, _giving(run.id, other), prefers if other == PRIORITIES[-1] else None
            )


def _giving(run_id: int, priority: Priority) -> Callable[[Store, str], None]:
    return lambda store, who: store.queue.set_priority(run_id, priority, by=who)


def _button(
    label: str, run: Run, order: Callable[[Store, str], None], stands: permissions.Control | None = None
) -> None:
    """Show one button; where the store can't do what it says, its sentence stands below."""

    def done(store: Store) -> bool:
        order(store, current_user.whoever())
        return True

    if st.button(
        label, key=f"queue-{run.id}-{label}", width="stretch", **(stands or permissions.off(None))
    ) and command(done):
        st.rerun()


def _sentence(words: str) -> str:
    """Return words as a sentence, but a name at the start as it is written."""
    starts_low = words.startswith(("waits", "held", "starts"))
    return f"{words[:1].upper() if starts_low else words[:1]}{words[1:]}."
