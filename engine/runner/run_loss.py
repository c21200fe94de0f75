"""The end of a run whose worker is gone: lost, and retried if its options allow it. Torch-free."""

import logging

from engine import seeding
from engine.errors import EngineError
from engine.registry import experiment
from engine.store import Store
from engine.store.records import Run
from engine.system.checkpoint_state import last_checkpoint, why_not_own

log = logging.getLogger(__name__)


def lose(store: Store, run: Run, cause: str) -> None:
    """End a run as lost, and queue an automatic retry if allowed."""
    cause = _by_restore(store, run) or cause
    tries = run.attempt < run.terms.max_retries
    cure = (
        ""
        if tries
        else " Retry it."
        if not run.terms.max_retries
        else f" All {run.terms.max_retries} retries are used up."
    )
    if next_id := store.claims.lose(run.id, f"{cause}{cure}", resumes=_can_resume(store, run)):
        log.info("run %d was lost and is retried as run %d", run.id, next_id)


def _by_restore(store: Store, run: Run) -> str:
    """Return the cause of a run that the restored backup has as active: a restore is refused while any run is."""
    restores = (one for one in store.read.audit.entries(command="restore") if not one.refused)
    last = next((one for one in restores if run.claimed_at and one.at >= run.claimed_at), None)
    if last is None:
        return ""
    return (
        f"The store was restored by {last.who} at {last.at} ({last.detail.partition(';')[0]}), a backup made while "
        "this run was active. What the run did afterwards is not in it."
    )


def _can_resume(store: Store, run: Run) -> bool:
    try:
        if not experiment(run.experiment).resumable or seeding.why_not_resumable(run.seeding):
            return False
        found = last_checkpoint(store.db.home.run_folder(run.id))
        return found is not None and not (why_not_own(run, found) or store.read.runs.why_behind(run.id, found.steps))
    except EngineError:
        return False
