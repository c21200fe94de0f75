"""The lineage of a run (which run it resumes or retries, and which runs resume or retry it), and the buttons
for both.
"""

import streamlit as st

from app.actions.submit import Again, submit
from app.core.formatting import duration
from app.ui import current_user
from app.ui.html import as_text, fact_row, run_link
from engine.home import Home
from engine.launch import why_not_resumable, why_not_retriable
from engine.launch_options import PRIORITIES
from engine.registry import known_experiment
from engine.store import Reader
from engine.store.records import RESUMES, RETRIES, Run
from engine.system.checkpoint_state import last_checkpoint

LONG_CHAIN = 2
"""Chains of at most two runs need no list: they are shown by the links to each other."""


def lineage(run: Run, reader: Reader) -> None:
    """Link the run to its parent and to the runs that resume or retry it; show nothing if there are none.

    A longer chain is listed instead, from its first run to its last.
    """
    before = _before(run, reader)
    names = {run.parent_id: before} if before and run.parent_id else {}
    names |= {each: f"resumed as run {each}" for each in reader.runs.resumed_as(run.id)}
    names |= {each: f"retried as run {each}" for each in reader.runs.retried_as(run.id)}
    chain = reader.runs.chain(run.id)
    if len(chain) > LONG_CHAIN:
        said = [
            f"run {each} (this one)"
            if each == run.id
            else run_link(f"{names.get(each, f'run {each}')} ({status})", each)
            for each, status in chain
        ]
    else:
        said = [run_link(words, each) for each, words in names.items()]
    if before and not run.parent_id:
        said.insert(0, f"{before}, which was deleted")
    if said:
        st.html(fact_row(said))


def _before(run: Run, reader: Reader) -> str:
    """Return what the run resumes or retries, in words; its events record that even if the parent was deleted."""
    events = {event.kind: event.detail for event in reader.details.events(run.id)}
    if RESUMES in events:
        return f"resumes {events[RESUMES]}"
    if RETRIES in events:
        return f"retries {events[RETRIES]}"
    return f"resumes run {run.parent_id}" if run.parent_id else ""


def resume_button(run: Run) -> None:
    """Show the Resume button, for a run that ended early and whose experiment saves checkpoints."""
    if run.active or run.status == "finished" or not _keeps_checkpoints(run):
        return
    refusal = why_not_resumable(Home.find(), run)
    why_not = why_not_again(run) or (str(refusal) if refusal else None)
    if st.button(
        "Resume",
        key=f"resume-{run.id}",
        **current_user.off(why_not, help=None if why_not else as_text(_resume_help(run))),
    ):
        submit(Again(run.id, resumes=True))


def retry_button(run: Run) -> None:
    """Show the Retry button, for a cancelled, lost or failed run."""
    if why_not_retriable(run) is not None:
        return
    words = f"Queues a new run with the same settings at once, from the start, and opens it. Run {run.id} is kept."
    if st.button("Retry", key=f"retry-{run.id}", **current_user.off(why_not_again(run), help=words)):
        submit(Again(run.id, resumes=False))


def why_not_again(run: Run) -> str | None:
    """Return why the user may not resume or retry this run at its priority; None if allowed."""
    refusal = current_user.why_not("retry", [run.owner], f"Run {run.id}")
    return refusal or (current_user.why_not("prefer") if run.terms.priority == PRIORITIES[-1] else None)


def what_next(run: Run) -> None:
    """Explain what the buttons do for a cancelled, lost or failed run, and why Resume is disabled."""
    if why_not_retriable(run) is not None or why_not_again(run):
        return
    said = ["Retry starts over with the same settings."]
    if _keeps_checkpoints(run):
        refusal = why_not_resumable(Home.find(), run)
        said.insert(0, str(refusal) if refusal else f"Resume continues from {_resume_point(run)}.")
    limit = (
        f" Both keep the time limit of {duration(run.terms.max_run_time_s)}; clone the run to change it."
        if run.stop_kind == "time limit"
        else ""
    )
    st.caption(as_text(f"{' '.join(said)} Clone lets you change the settings first.{limit}"))


def _keeps_checkpoints(run: Run) -> bool:
    known = known_experiment(run.experiment)
    return known is not None and known.resumable


def _resume_point(run: Run) -> str:
    """Return the step that a resumed run would continue from."""
    found = last_checkpoint(Home.find().run_folder(run.id))
    return f"step {found.step:,}" if found else "the last checkpoint"


def _resume_help(run: Run) -> str:
    return (
        f"Queue a new run that continues from {_resume_point(run)} with the same settings and keeps the curves so far."
    )
