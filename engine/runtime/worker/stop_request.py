"""A stop request: its exception, its signal, and its reason in words. Torch-free."""

import signal
from types import FrameType

from engine.errors import EngineError
from engine.store import Run


class StopRequested(EngineError):
    """A person or the system requested the run to stop."""


class StopSwitch:
    """Turns SIGTERM into a flag for the monitor loop, or into an exception while no rank runs yet."""

    def __init__(self) -> None:
        self.requested = False
        self.interruptible = False
        signal.signal(signal.SIGTERM, self._on)

    def _on(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
        if self.interruptible:
            self.interruptible = False
            raise StopRequested("The run was asked to stop.")

    def is_requested(self) -> bool:
        """Return whether to stop; called by the monitor loop, so from the first call on no exception is raised into
        it.
        """
        self.interruptible = False
        return self.requested


def stop_reason(run: Run) -> str:
    """Return why a run was stopped, as a sentence."""
    if run.stop_kind == "time limit":
        return f"Stopped at its time limit, max_run_time_s ({run.terms.max_run_time_s:,.12g} s)."
    return f"Cancelled by {run.stop_requested_by}{' (forced)' if run.stop_kind == 'force' else ''}."
