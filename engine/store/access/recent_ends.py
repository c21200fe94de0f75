"""Runs that ended since a time, grouped by sweep, and a marker that changes when more have ended."""

from collections.abc import Mapping
from dataclasses import dataclass

from engine.store.connection import Connection, Row
from engine.store.records import ENDED, Status

_COUNTS = ", ".join(f"count(*) FILTER (WHERE status = '{status}') AS {status}" for status in ENDED)
_SINCE = "FROM runs WHERE ended_at > ? AND archived_by IS NULL"
_MARK = (
    "SELECT (SELECT max(ended_at) FROM runs WHERE ended_at IS NOT NULL) AS newest, (SELECT count(*) FROM runs) AS runs,"
    " (SELECT count(*) FROM runs WHERE archived_by IS NOT NULL) AS archived"
)


@dataclass(frozen=True)
class Ended:
    """An ended run, or (with `sweep_id`) the ended runs of a sweep."""

    sweep_id: int | None
    run_id: int
    """The run; for a sweep its newest run."""
    statuses: Mapping[Status, int]
    """Number of runs per status; statuses without runs are omitted."""
    ended_at: str
    """Time of the last end."""


class RecentEndReader:
    """Queries of recent ends. Archived runs are excluded."""

    def __init__(self, db: Connection) -> None:
        self.db = db

    def since(self, since: str, *, limit: int = 8) -> list[Ended]:
        """Return everything that ended after a time, newest first."""
        of_each = f"SELECT sweep_id, max(id) AS run_id, max(ended_at) AS ended_at, {_COUNTS}"
        sql = f"{of_each} {_SINCE} GROUP BY coalesce(sweep_id, -id) ORDER BY 3 DESC, 2 DESC LIMIT ?"
        return [
            Ended(row["sweep_id"], row["run_id"], _statuses(row), row["ended_at"])
            for row in self.db.rows(sql, [since, limit])
        ]

    def count_since(self, since: str) -> dict[Status, int]:
        """Return the number of runs that ended after a time, by status."""
        row = self.db.row(f"SELECT {_COUNTS} {_SINCE}", [since])
        return _statuses(row) if row else {}

    def mark(self) -> tuple[str, int, int]:
        """Return a value that changes when a run ends, is deleted, archived or unarchived, without reading the runs."""
        row = self.db.row(_MARK)
        return (str(row["newest"] or ""), row["runs"], row["archived"]) if row else ("", 0, 0)


def _statuses(row: Row) -> dict[Status, int]:
    return {status: row[status] for status in ENDED if row[status]}
