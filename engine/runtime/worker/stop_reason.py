"""Why a run was stopped, for its worker and its runner alike. Torch-free."""

from engine.store import Run


def stop_reason(run: Run) -> str:
    """Return why a run that was stopped was stopped, as a sentence."""
    if run.stop_kind == "time limit":
        return f"Ended at its time limit: it was on for max_run_time_s ({run.terms.max_run_time_s:g} s)."
    return f"Cancelled by {run.stop_requested_by}{', by force' if run.stop_kind == 'force' else ''}."
