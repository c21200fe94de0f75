"""The destination of a worker's records: an interface, and the sink that writes to the store."""

import logging
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from engine.errors import StoreBusy, StoreFull
from engine.recorder import Point
from engine.store.curve_records import MachineSample
from engine.store.records import RankBatch, RankRow
from engine.trace.health import Health
from engine.trace.layout import TraceWindow

if TYPE_CHECKING:
    from engine.store import Store


class Sink(Protocol):
    """A worker's reports on its run; each call is atomic."""

    def ranks(self, rows: Sequence[RankRow]) -> None:
        """Report the state of each rank."""

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


class StoreSink:
    """Writes one run's records to the store."""

    def __init__(self, store: "Store", run_id: int) -> None:
        self._store = store
        self._run_id = run_id
        self._known: set[int] = set()
        self._seen_request = 0

    def ranks(self, rows: Sequence[RankRow]) -> None:
        new = [row for row in rows if row.rank not in self._known]
        if new:
            self._store.worker.add_ranks(self._run_id, new)
            self._known |= {row.rank for row in new}
            for row in new:
                self._store.worker.add_log(self._run_id, row.role, f"logs/{row.role}.log")
        if old := [row for row in rows if row not in new]:
            self._store.worker.update_ranks(self._run_id, old)

    def note(self, name: str, value: Any) -> None:
        self._store.worker.note_environment(self._run_id, name, value)

    def running(self, startup_time_s: float) -> None:
        self._store.worker.mark_running(self._run_id, startup_time_s)

    def write(
        self,
        batches: Sequence[RankBatch],
        run_points: Sequence[Point],
        progress: tuple[int, int, str],
        samples: Sequence[MachineSample],
        windows: Sequence[TraceWindow],
    ) -> None:
        self._store.worker.write(
            self._run_id, batches, run_points=run_points, progress=progress, samples=samples, windows=windows
        )

    def trace_requests(self) -> list[float]:
        found = self._store.read.traces.requests(self._run_id, self._seen_request)
        self._seen_request = max([self._seen_request, *(number for number, _ in found)])
        return [seconds for _, seconds in found]

    def standstill(self, kind: str, sentence: str) -> None:
        self._store.worker.note_standstill(self._run_id, kind, sentence)

    def health(self, health: Health) -> None:
        self._store.worker.write_health(self._run_id, health)

    def event(self, kind: str, detail: str) -> None:
        self._store.runs.add_event(self._run_id, kind, "worker", detail)

    def sync(self) -> None:
        self._store.db.sync()


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
