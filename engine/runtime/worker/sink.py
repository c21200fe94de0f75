"""What connects a worker with the one who launched its run: the sink for its records, and the request to stop."""

import logging
import signal
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, Protocol, TypeVar

from engine.errors import EngineError, StoreBusy, StoreFull
from engine.recorder import Point
from engine.store.curve_records import MachineSample
from engine.store.records import RankBatch, RankRow, Run
from engine.trace.health import Health
from engine.trace.layout import TraceWindow


class Sink(Protocol):
    """A worker's reports on its run; each call is atomic."""

    def ranks(self, rows: Sequence[RankRow]) -> None:
        """Report the state of each rank."""

    def log_file(self, source: str, path: str) -> None:
        """Report a log file of the run's folder; those of ranks are known."""

    def note(self, name: str, value: Any) -> None:
        """Add to the run's environment; `value` is plain JSON."""

    def running(self, startup_time_s: float) -> None:
        """Report that all ranks are ready."""

    def write(
        self,
        batches: Sequence[RankBatch],
        run_points: Sequence[Point],
        progress: tuple[int, int, str],
        samples: Sequence[MachineSample],
        windows: Sequence[TraceWindow],
    ) -> None:
        """Store ranks' records, the run's own points, its progress, the machine's numbers and windows of the trace."""

    def trace_requests(self) -> list[float]:
        """Return the new requests to store all operations, each for so many seconds."""

    def standstill(self, kind: str, sentence: str) -> None:
        """Report once that a rank, or the run, stands still."""

    def health(self, health: Health) -> None:
        """Report what each rank is doing, and whether one hangs."""

    def event(self, kind: str, detail: str) -> None:
        """Store an event and its time."""

    def sync(self) -> None:
        """Return when everything that was written would survive a power failure."""


# ---- Retries for the last writes of a run, in case the store is busy or full only for a while ----------------------

log = logging.getLogger(__name__)

PATIENCE_S = 60.0
PAUSE_S = 0.5

T = TypeVar("T")


def retry_while_busy(write: Callable[[], T], for_s: float = PATIENCE_S, pause_s: float = PAUSE_S) -> T:
    """Return the result of `write`, retried for `for_s` seconds while the store is busy or full; raises the last
    StoreBusy or StoreFull.
    """
    deadline = time.monotonic() + for_s
    while True:
        try:
            return write()
        except (StoreBusy, StoreFull) as error:
            if time.monotonic() >= deadline:
                raise
            log.warning("%s Retrying.", error)
            time.sleep(pause_s)


# ---- A stop request: its exception, its signal, and its reason in words. Torch-free --------------------------------


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
