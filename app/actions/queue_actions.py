"""The queue in words and buttons: the estimates before a launch, the reason why a run waits, and queue actions."""

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import streamlit as st

from app.actions.annotations import command_button, order_soon
from app.core.caches import slowed_by_others
from app.core.formatting import duration
from app.ui import current_user, dialogs
from app.ui.html import as_text
from app.ui.store_access import command, reading
from app.ui.widgets import close_dialog, keep_label, show_facts
from engine.errors import WrongStatus, counted
from engine.home import Home
from engine.launch_options import PRIORITIES, Priority
from engine.queue.cluster_wait import cluster_wait
from engine.queue.estimates import Estimate
from engine.queue.forecast import NEXT, Wait, outlook, prospect, start_in_words
from engine.store import Launch, Reader, Store
from engine.store.access.authorization import what
from engine.store.records import ENDED, Run, RunRow
from engine.upkeep.retention_policy import PROTECTED, deletable, delete_runs

NAMED = 3
"""Number of different counts that an estimate names."""


def show_prospect(asked: Launch) -> Estimate | None:
    """Show the estimated duration and start of a run; return the former."""
    with reading() as reader:
        found = prospect(reader, Home.find(), asked)
        slowed = slowed_by_others(reader)
    starts = start_in_words(found.starts_in_s) or "unknown"
    show_facts([("Estimated duration", takes(found.takes)), ("Estimated start", starts)])
    if found.reason:
        st.caption(as_text(f"If launched now, it {found.reason}."))
    if slowed:
        st.caption(slowed)
    return found.takes


def takes(found: Estimate | None) -> str:
    """Return the total time of similar runs in words, with its source."""
    if found is None:
        return "No estimate yet (first run of this kind)"
    runs = "run" if found.runs == 1 else "runs"
    source = f"from {found.runs} similar {runs}"
    if found.scaled_from:
        more = f" and {len(found.scaled_from) - NAMED} more" if len(found.scaled_from) > NAMED else ""
        source = f"scaled by work from {found.runs} {runs} with {' or '.join(found.scaled_from[:NAMED])}{more}"
    if found.disturbed:
        source += ", disturbed by other programs"
    if found.whole_s is not None:
        return f"{duration(found.median)}, its time limit (about {duration(found.whole_s)} without it), {source}"
    range_of = f" ({duration(found.shortest)} to {duration(found.longest)})" if found.runs > 1 else ""
    executed = f" (execution {duration(found.execution_s)})" if found.execution_s is not None else ""
    return f"about {duration(found.median)}{range_of} in total{executed}, {source}"


def waits(reader: Reader) -> dict[int, Wait]:
    """Return the estimates of each queued run, in the order of the queue."""
    return outlook(reader, Home.find()) if reader.queue.count() else {}


def why(run: Run | RunRow, wait: Wait | None, reader: Reader) -> str:
    """Return why a run waits and its estimated start, in sentences; a run far back has only its position."""
    if wait is None:
        return _sentence(_far_back(run, reader))
    starts = wait.start if wait.reason != NEXT else ""
    sentences = [_sentence(wait.reason)]
    if wait.position and wait.reason != NEXT:
        sentences.append(_sentence(_place(wait.position)))
    if starts:
        sentences.append(f"Expected to start {starts}.")
    if wait.takes:
        sentences.append(f"Takes {takes(wait.takes)}.")
    return " ".join(sentences)


def why_queued(run: Run, reader: Reader) -> str:
    """Return why a queued run is waiting, as a sentence."""
    if run.is_held:
        return f"Waiting: sweep {run.sweep_id} is paused."
    return why(run, waits(reader).get(run.id), reader)


def in_short(run: RunRow, wait: Wait | None, reader: Reader) -> str:
    """Return why a run waits and its estimated start, in a few words; of a run far back only its position."""
    if wait is None:
        return _far_back(run, reader)
    starts = wait.start if wait.reason != NEXT else ""
    place = f"position {wait.position:,}: " if wait.position else ""
    return f"{place}{wait.reason}{f', starts {starts}' if starts else ''}"


def _far_back(run: Run | RunRow, reader: Reader) -> str:
    before = reader.queue.position(run.id)
    if before is None:
        return "on hold"
    return cluster_wait(run.target, reader.cluster_jobs.of(run.id)) if run.target else _place(before + 1)


@dataclass(frozen=True)
class _Change:
    """A change of queued runs: its button, whose permission it needs, its command, and what was done."""

    label: str
    rule: str
    give: Callable[[Store, int, str], None]
    done: str
    backwards: bool = False
    """Whether several runs are changed from the last to the first, to keep their order."""


def _prioritizing(level: Priority) -> _Change:
    return _Change(
        f"Set priority to {level}",
        "prefer" if level == PRIORITIES[-1] else "yield",
        lambda store, run_id, who: store.queue.set_priority(run_id, level, by=who),
        f"given {level} priority",
    )


_PLACES = (
    _Change("Hold", "hold", lambda store, run_id, who: store.queue.hold(run_id, by=who), "put on hold"),
    _Change("Release", "release", lambda store, run_id, who: store.queue.release(run_id, by=who), "released"),
    _Change(
        "Move to front",
        "prefer",
        lambda store, run_id, who: store.queue.move(run_id, "front", by=who),
        "moved to the front",
        backwards=True,
    ),
    _Change(
        "Move to back",
        "yield",
        lambda store, run_id, who: store.queue.move(run_id, "back", by=who),
        "moved to the back",
    ),
)
_PRIORITIES = tuple(map(_prioritizing, reversed(PRIORITIES)))
_SELECTED = "runs.queue"
"""Key of the popover of the selected runs."""


def queue_actions(run: Run) -> None:
    """Show the actions on a queued run: hold or release it, move it, change its priority."""
    if run.status != "queued":
        return
    named, owners = f"Run {run.id}", [run.owner]
    left_out = ("Hold" if run.held_by else "Release", f"Set priority to {run.terms.priority}")

    def button(change: _Change) -> None:
        if change.label not in left_out:
            stands = current_user.control(change.rule, owners, what=named)
            key = f"queue-{run.id}-{change.label}"
            command_button(change.label, key, lambda store, who: change.give(store, run.id, who), stands)

    stands = current_user.control("hold", owners, what=named, help="Hold the run or change its position.")
    with st.popover("Queue", **stands):
        _changes(button, f"Priority: {run.terms.priority}. Front and back are within this priority.")


def queue_selected(runs: Sequence[RunRow]) -> None:
    """Show these actions for the selected runs that are queued; each is done in the next rerun, like a mark."""
    queued = [run for run in runs if run.status == "queued"]
    if not queued:
        return
    ids, owners = [run.id for run in queued], list(dict.fromkeys(run.owner for run in queued))
    named = what("run", ids)

    def button(change: _Change) -> None:
        stands = current_user.control(change.rule, owners, what=named)
        key = f"{_SELECTED}.{change.label}"
        st.button(
            change.label, key=key, on_click=_change_soon, args=(change, frozenset(ids)), width="stretch", **stands
        )

    stands = current_user.control("hold", owners, what=named, help="Hold the queued runs or change their position.")
    with st.popover("Queue", key=_SELECTED, on_change="rerun", **stands):
        _changes(button, "Front and back are within each run's priority.")


def _changes(button: Callable[[_Change], None], words: str) -> None:
    """Show a button for each change, and a sentence before the priorities."""
    for change in _PLACES:
        button(change)
    st.caption(words)
    for change in _PRIORITIES:
        button(change)


def _change_soon(change: _Change, ids: Collection[int]) -> None:
    """Close the popover, which would cover the dialog that asks for the name, and change the runs on the next rerun."""
    st.session_state[_SELECTED] = False
    order_soon(partial(_change_queued, change, ids), change.done)


def _change_queued(change: _Change, ids: Collection[int], store: Store, who: str) -> list[int]:
    """Change those of the runs that are still queued, all or none; several keep their order."""
    with store.db.change():
        queued = [run.id for run in store.read.queue.waiting() if run.id in ids]
        for run_id in reversed(queued) if change.backwards else queued:
            change.give(store, run_id, who)
    return queued


def _place(position: int) -> str:
    """Return a position in the queue in words."""
    return "next in the queue" if position == 1 else f"position {position:,} in the queue"


def _sentence(words: str) -> str:
    """Return words as a sentence; a name at the start keeps its case."""
    starts_low = words.startswith(("waits", "held", "on hold", "starts", "to be", "next", "position"))
    return f"{words[:1].upper() if starts_low else words[:1]}{words[1:]}."


# ---- The deletion of several runs, which only those offer who may -------------------------------------------------


def delete_selected(runs: Sequence[RunRow]) -> None:
    """Show the button that deletes the selected runs which have ended, to a person who may, after a confirmation."""
    ended = [run.id for run in runs if run.status in ENDED]
    owners = list(dict.fromkeys(run.owner for run in runs if run.status in ENDED))
    if ended and current_user.may("delete", owners) and st.button("Delete", key="runs.delete"):
        dialogs.open_soon(ask_delete_all, ended)


@st.dialog("Delete the selected runs for good?")
def ask_delete_all(run_ids: Sequence[int]) -> None:
    """Ask to type their number, then delete; protected runs are kept."""
    with reading() as reader:
        found = deletable(reader, run_ids)
    kept = len(run_ids) - len(found)
    if not found:
        close_dialog(f"None of the selected runs can be deleted. {PROTECTED}")
        return
    count = counted(len(found), "run")
    st.write(
        f"{count} will be deleted with settings, curves, events, notes, logs, checkpoints and kept files. This can't "
        "be undone; only a bundle that you downloaded, or a backup, has them then."
    )
    if kept:
        st.caption(f"{counted(kept, 'selected run')} will be kept. {PROTECTED}")
    typed = st.text_input(f"Type {len(found)} to confirm", key="runs.delete.typed", width=200)
    with st.container(horizontal=True):
        is_sure = typed.strip() == str(len(found))
        pressed = st.button(f"Delete {count}", type="primary", key="runs.delete-all", disabled=not is_sure)
        if pressed and is_sure:
            with st.spinner("Deleting…"):
                done = command(lambda store: delete_runs(store.db.home, found, by=current_user.whoever()))
            if done is not None:
                st.toast(f"Deleted {counted(len(done), 'run')}.")
                st.rerun()
        if st.button("Keep it" if len(found) == 1 else "Keep them"):
            st.rerun()


# ---- The cancellation of several runs that are selected in a table -------------------------------------------------


def cancel_selected(runs: Sequence[RunRow]) -> None:
    """Show the button that cancels the selected runs which have not ended, after a confirmation."""
    active = [run for run in runs if run.status not in (*ENDED, "stopping") and not run.reported]
    if not active:
        return
    owners = list(dict.fromkeys(run.owner for run in active))
    named = what("run", [run.id for run in active])
    if st.button("Cancel", key="runs.cancel", **current_user.control("cancel", owners, what=named)):
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
