"""Which run a run goes on from or repeats, and which go back to it; and the buttons that let one go on, or
begin again.
"""

from html import escape

import streamlit as st

from app.actions.submit import Repetition, Resumption, order
from app.core.formatting import duration
from app.ui import current_user, permissions
from app.ui.html import as_text, run_link
from engine.errors import EngineError
from engine.home import Home
from engine.launch import why_not_resumable, why_not_retriable
from engine.launch_options import PRIORITIES
from engine.registry import experiment
from engine.store import Reader
from engine.store.records import RESUMES, RETRIES, Run
from engine.system.checkpoint_state import last_checkpoint

LONG_CHAIN = 2
"""Two runs are told by the links to each other."""


def lineage(run: Run, reader: Reader) -> None:
    """Link the run to the one that it goes back to, and to those that go back to it; show nothing where there is none.

    A longer chain is shown whole, from its first run to its last.
    """
    before = _before(run, reader)
    said = (
        [run_link(before, run.parent_id) if run.parent_id else escape(f"{before}, which was deleted")] if before else []
    )
    said += [run_link(f"resumed as run {run_id}", run_id) for run_id in reader.runs.resumed_as(run.id)]
    said += [run_link(f"retried as run {run_id}", run_id) for run_id in reader.runs.retried_as(run.id)]
    if not said:
        return
    if len(chain := reader.runs.chain(run.id)) > LONG_CHAIN:
        links = (
            escape(f"run {each} (this one)") if each == run.id else run_link(f"run {each} ({status})", each)
            for each, status in chain
        )
        said.append(f"all of them: {', '.join(links)}")
    st.html(f'<div class="pl-row">{"".join(f"<span>{part}</span>" for part in said)}</div>')


def _before(run: Run, reader: Reader) -> str:
    """Return what the run resumes or retries, in words; its events know that even where the other run was deleted."""
    events = {event.kind: event.detail for event in reader.details.events(run.id)}
    if RESUMES in events:
        return f"resumes {events[RESUMES]}"
    if RETRIES in events:
        return f"retries {events[RETRIES]}"
    return f"resumes run {run.parent_id}" if run.parent_id else ""


def resume_button(run: Run) -> None:
    """Show the button that resumes, for a run that ended before its end and whose experiment keeps checkpoints."""
    if run.active or run.status == "finished":
        return
    try:
        keeps = experiment(run.experiment).resumable
    except EngineError:
        return
    if not keeps:
        return
    refusal = why_not_resumable(Home.find(), run)
    why_not = why_not_again(run) or (str(refusal) if refusal else None)
    if st.button(
        "Resume", key=f"resume-{run.id}", **permissions.off(why_not, help=None if why_not else as_text(_promise(run)))
    ):
        order(Resumption(run.id))


def retry_button(run: Run) -> None:
    """Show the button that repeats a run that was cancelled, lost or failed."""
    if why_not_retriable(run) is not None:
        return
    words = "Queue a new run with these settings that begins from the start."
    if st.button("Retry", key=f"retry-{run.id}", **permissions.off(why_not_again(run), help=words)):
        order(Repetition(run.id))


def why_not_again(run: Run) -> str | None:
    """Return why the person may not queue a run that goes back to this one, whose priority it keeps; None where they
    may.
    """
    refusal = current_user.why_not("retry", [run.owner], f"Run {run.id}")
    return refusal or (current_user.why_not("prefer") if run.terms.priority == PRIORITIES[-1] else None)


def what_next(run: Run, reader: Reader) -> None:
    """Say what the buttons would do about a run that was cancelled, lost or failed; nothing where another run goes back
    to it already.
    """
    if (
        why_not_retriable(run) is not None
        or why_not_again(run)
        or reader.runs.resumed_as(run.id)
        or reader.runs.retried_as(run.id)
    ):
        return
    said = ["Retry begins it anew with the same settings."]
    if (found := _goes_on_from(run)) is not None:
        said.insert(0, f"Resume goes on from {found}.")
    limit = (
        f" Its time limit of {duration(run.terms.max_run_time_s)} goes with it; launch a clone to give it another."
        if run.stop_kind == "time limit"
        else ""
    )
    st.caption(as_text(f"{' '.join(said)} Clone lets you change them first.{limit}"))


def _goes_on_from(run: Run) -> str | None:
    """Return where a resumption would go on from, None where there can be none."""
    try:
        if why_not_resumable(Home.find(), run) is not None:
            return None
    except EngineError:
        return None
    found = last_checkpoint(Home.find().run_folder(run.id))
    return f"step {found.step:,}" if found else None


def _promise(run: Run) -> str:
    return (
        f"Queue a new run with these settings that goes on from {_goes_on_from(run) or 'the last checkpoint'}, "
        "with the curves up to there."
    )
