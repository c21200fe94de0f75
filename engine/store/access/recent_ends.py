"""Runs that ended since a time, grouped by sweep or duel, and a marker that changes when more have ended."""

from collections.abc import Mapping
from dataclasses import dataclass

from engine.store.connection import Connection, Row
from engine.store.records import BUDGET_OF, ENDED, Status

_COUNTS = ", ".join(f"count(*) FILTER (WHERE status = '{status}') AS {status}" for status in ENDED)
_REACHED = f"count(*) FILTER (WHERE status = 'cancelled' AND cause LIKE 'Cancelled by {BUDGET_OF} %') AS reached"
"""Needs the runs themselves, where `_COUNTS` is read from an index."""
_SINCE = "FROM runs WHERE ended_at > ? AND archived_by IS NULL"
_MARK = (
    "SELECT (SELECT max(ended_at) FROM runs WHERE ended_at IS NOT NULL) AS newest, (SELECT count(*) FROM runs) AS runs,"
    " (SELECT count(*) FROM runs WHERE archived_by IS NOT NULL) AS archived"
)


@dataclass(frozen=True)
class Ended:
    """An ended run, or the ended runs of a duel (with `duel_id`) or of another sweep (with `sweep_id` alone)."""

    duel_id: int | None
    sweep_id: int | None
    run_id: int
    """The run; for a sweep or duel its newest run."""
    statuses: Mapping[Status, int]
    """Number of runs per status; statuses without runs are omitted."""
    ended_at: str
    """Time of the last end."""
    reached_budget: int = 0
    """Number of cancelled ones that had spent the budget of their duel."""


class RecentEndReader:
    """Queries of recent ends. Archived runs are excluded."""

    def __init__(self, db: Connection) -> None:
        self.db = db

    def since(self, since: str, *, limit: int = 8) -> list[Ended]:
        """Return everything that ended after a time, newest first."""
        duel = "(SELECT duel_id FROM duel_sweeps WHERE sweep_id = runs.sweep_id)"
        of_each = (
            f"SELECT {duel} AS duel_id, sweep_id, max(id) AS run_id, max(ended_at) AS ended_at, {_COUNTS}, {_REACHED}"
        )
        sql = f"{of_each} {_SINCE} GROUP BY 1, iif({duel} IS NULL, coalesce(sweep_id, -id), 0) ORDER BY 4 DESC, 3 DESC"
        return [
            Ended(row["duel_id"], row["sweep_id"], row["run_id"], _statuses(row), row["ended_at"], row["reached"])
            for row in self.db.rows(f"{sql} LIMIT ?", [since, limit])
        ]

    def count_since(self, since: str) -> tuple[dict[Status, int], int]:
        """Return the number of runs that ended after a time, by status, and how many of the cancelled ones had spent
        the budget of their duel.
        """
        row = self.db.row(f"SELECT {_COUNTS} {_SINCE}", [since])
        counts = _statuses(row) if row else {}
        found = self.db.row(f"SELECT {_REACHED} {_SINCE}", [since]) if counts.get("cancelled") else None
        return counts, found["reached"] if found else 0

    def mark(self) -> tuple[str, int, int]:
        """Return a value that changes when a run ends, is deleted, archived or unarchived, without reading the runs."""
        row = self.db.row(_MARK)
        return (str(row["newest"] or ""), row["runs"], row["archived"]) if row else ("", 0, 0)


def _statuses(row: Row) -> dict[Status, int]:
    return {status: row[status] for status in ENDED if row[status]}
