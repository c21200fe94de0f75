"""Which run a run goes on from, and which go on from it; and the button that lets one go on."""

from html import escape

import streamlit as st

from app.launching import Resumption, order
from app.markup import as_text, run_link
from engine.checkpoint import last_checkpoint
from engine.errors import EngineError
from engine.home import Home
from engine.launch import why_not_resumable
from engine.registry import experiment
from engine.store import Reader
from engine.store.records import RESUMES, Run


def lineage(run: Run, reader: Reader) -> None:
    """Link the run to the one that it resumes, and to those that resume it; show nothing where there is none."""
    before = next((event.detail for event in reader.events(run.id) if event.kind == RESUMES), f"run {run.parent_id}" if run.parent_id else "")
    after = reader.resumed_as(run.id)
    if not before and not after:
        return
    said = [run_link(f"resumes {before}", run.parent_id) if run.parent_id else escape(f"resumes {before}, which was deleted")] if before else []
    said += [run_link(f"resumed as run {run_id}", run_id) for run_id in after]
    st.html(f'<div class="pl-row">{"".join(f"<span>{part}</span>" for part in said)}</div>')


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
    if st.button("Resume", key=f"resume-{run.id}", disabled=refusal is not None, help=as_text(str(refusal) if refusal else _promise(run))):
        order(Resumption(run.id))


def _promise(run: Run) -> str:
    found = last_checkpoint(Home.find().run_folder(run.id))
    return f"Queue a new run with these settings that goes on from {f'step {found.step:,}' if found else 'the last checkpoint'}, with the curves up to there."
