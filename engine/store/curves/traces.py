"""Queries of the stored traces: the windows of a run, and the operations of its ranks in them."""

from typing import TYPE_CHECKING

from engine.store.connection import Connection
from engine.trace.layout import TraceWindow

if TYPE_CHECKING:
    from engine.trace.chunk import TraceChunk


class TraceQueries:
    """Reads traces. Their NumPy form is imported at first use, so that other commands start fast."""

    def __init__(self, db: Connection) -> None:
        self.db = db

    def windows(self, run_id: int) -> list[TraceWindow]:
        """Return the stretches of a run whose operations are stored, in order."""
        sql = "SELECT begin_ns, end_ns, reason FROM trace_windows WHERE run_id = ? ORDER BY begin_ns"
        return [TraceWindow(*row) for row in self.db.tuples(sql, [run_id])]

    def requests(self, run_id: int, after: int) -> list[tuple[int, float]]:
        """Return the requests with higher ids than `after`, as (id, seconds)."""
        sql = "SELECT id, seconds FROM trace_requests WHERE run_id = ? AND id > ? ORDER BY id"
        return [(int(number), float(seconds)) for number, seconds in self.db.tuples(sql, [run_id, after])]

    def newest(self, run_id: int) -> int:
        """Return the id of a run's newest chunk; 0 if it has none."""
        return self.db.number("SELECT max(id) AS id FROM trace_chunks WHERE run_id = ?", [run_id])

    def chunks(self, run_id: int, after: int = 0) -> "list[TraceChunk]":
        """Return a run's chunks with higher ids than `after`, in the order recorded; raises StoreDamaged."""
        from engine.trace.chunk import TraceChunk

        sql = "SELECT rank, names, content, entries, lost FROM trace_chunks WHERE run_id = ? AND id > ? ORDER BY id"
        return [TraceChunk.unpacked(*row) for row in self.db.tuples(sql, [run_id, after])]
