"""Each person's last visit of the Home page, and the time from which ended runs are new to them.

Page views less than half an hour apart are one visit, so that reloading the page, or returning from a run, shows the
same news.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from engine.store.connection import Connection, Row, WriteConnection
from engine.store.exercises import NOT_OF_EXERCISES
from engine.store.records import BUDGET_OF, ENDED, Status
from engine.store.timestamps import in_seconds, now, seconds_since

VISIT_S = 1_800.0
FIRST_S = 86_400.0
"""For a person without an earlier visit, runs that ended within this time are new."""
_LOOK = "SELECT looked_at, new_since FROM looks WHERE person = ?"


class VisitReader:
    """Queries of visits."""

    def __init__(self, db: Connection) -> None:
        self.db = db

    def new_since(self, person: str | None = None) -> str:
        """Return the time from which ended runs are new to a person who visits now; one day ago for unknown
        visitors.
        """
        return _since(self.db.row(_LOOK, [person]))

    def is_first(self, person: str) -> bool:
        """Return whether a visit now belongs to the person's first one."""
        return _is_first(self.db.row(_LOOK, [person]))


class VisitCommands:
    """Commands of visits."""

    def __init__(self, db: WriteConnection) -> None:
        self.db = db

    def note(self, person: str) -> str:
        """Record a visit, and return the time from which ended runs are new to the person."""
        with self.db.change() as connection:
            row = connection.execute(_LOOK, [person]).fetchone()
            since = _since(row)
            self._write(person, "" if _is_first(row) else since)
        return since

    def mark_seen(self, person: str) -> str:
        """Mark everything that ended so far as seen; return the current time."""
        at = now()
        with self.db.change():
            self._write(person, at)
        return at

    def _write(self, person: str, since: str) -> None:
        self.db.insert("looks", {"person": person, "looked_at": now(), "new_since": since}, otherwise="REPLACE")


def _is_first(row: Row | None) -> bool:
    return row is None or (not row["new_since"] and seconds_since(row["looked_at"]) < VISIT_S)


def _since(row: Row | None) -> str:
    if row is None or _is_first(row):
        return in_seconds(-FIRST_S)
    return str(row["new_since"] if seconds_since(row["looked_at"]) < VISIT_S else row["looked_at"])


# ------------------------------------------------------------------------------------------------------------------
# Runs that ended since a time, grouped by sweep, duel or bunch, and a marker that changes when more have ended.

_COUNTS = ", ".join(f"count(*) FILTER (WHERE status = '{status}') AS {status}" for status in ENDED)
_REACHED = f"count(*) FILTER (WHERE status = 'cancelled' AND cause LIKE 'Cancelled by {BUDGET_OF} %') AS reached"
"""Needs the runs themselves, where `_COUNTS` is read from an index."""
_SINCE = f"FROM runs WHERE ended_at > ?1 AND archived_by IS NULL AND {NOT_OF_EXERCISES.replace('?', '?2')}"
_IDS = ("duel_id", "sweep_id", "run_id", "first_id", "ended_at")
LEAST_OF_BUNCH = 4
_BUNCHES = f"""
WITH outside AS (
    SELECT id AS run_id, owner, experiment, ended_at,
        julianday(ended_at) - julianday(lag(ended_at) OVER (PARTITION BY owner, experiment ORDER BY ended_at, id))
            < 1 / 24.0 AS goes_on
    {_SINCE} AND sweep_id IS NULL AND (report_key IS NOT NULL OR id IN (SELECT run_id FROM origins))
), parts AS (
    SELECT run_id, owner, experiment,
        sum(goes_on IS NOT 1) OVER (PARTITION BY owner, experiment ORDER BY ended_at, run_id) AS part FROM outside
), bunches AS (
    SELECT run_id, first_id FROM (
        SELECT run_id, min(run_id) OVER one AS first_id, count(*) OVER one AS size FROM parts
        WINDOW one AS (PARTITION BY owner, experiment, part)
    ) WHERE size >= {LEAST_OF_BUNCH}
)
"""
"""A bunch: reported or imported runs of one experiment and person, each of which ended within an hour of another."""
_MARK = (
    "SELECT (SELECT max(ended_at) FROM runs WHERE ended_at IS NOT NULL) AS newest, (SELECT count(*) FROM runs) AS runs,"
    " (SELECT count(*) FROM runs WHERE archived_by IS NOT NULL) AS archived"
)


@dataclass(frozen=True)
class Ended:
    """An ended run, or the ended runs of a duel (with `duel_id`), of another sweep (with `sweep_id` alone) or of a
    bunch.
    """

    duel_id: int | None
    sweep_id: int | None
    run_id: int
    """The run; of several the newest one."""
    first_id: int
    """Of several the oldest one."""
    statuses: Mapping[Status, int]
    """Number of runs per status; statuses without runs are omitted."""
    ended_at: str
    """Time of the last end."""
    reached_budget: int = 0
    """Number of cancelled ones that had spent the budget of their duel."""

    @property
    def is_bunch(self) -> bool:
        """Whether it is a bunch of runs that programs outside of Parallab recorded."""
        return self.sweep_id is None and self.first_id != self.run_id


class RecentEndReader:
    """Queries of recent ends. Archived runs are excluded, and those of attempts at the exercises to leave out."""

    def __init__(self, db: Connection) -> None:
        self.db = db

    def since(self, since: str, *, limit: int = 8, without_exercises: Collection[str] = ()) -> list[Ended]:
        """Return everything that ended after a time, newest first."""
        duel = "(SELECT duel_id FROM duel_sweeps WHERE sweep_id = runs.sweep_id)"
        of_each = f"max(id) AS run_id, max(ended_at) AS ended_at, min(id) AS first_id, {_COUNTS}, {_REACHED}"
        sql = (
            f"{_BUNCHES} SELECT {duel} AS duel_id, sweep_id, {of_each} {_SINCE} "
            "AND id NOT IN (SELECT run_id FROM bunches) "
            f"GROUP BY 1, iif({duel} IS NULL, coalesce(sweep_id, -id), 0) "
            f"UNION ALL SELECT NULL, NULL, {of_each} FROM bunches CROSS JOIN runs ON id = run_id "
            "GROUP BY bunches.first_id ORDER BY 4 DESC, 3 DESC LIMIT ?3"
        )
        return [
            Ended(statuses=_statuses(row), reached_budget=row["reached"], **{name: row[name] for name in _IDS})
            for row in self.db.rows(sql, [since, json.dumps([*without_exercises]), limit])
        ]

    def count_since(self, since: str, *, without_exercises: Collection[str] = ()) -> tuple[dict[Status, int], int]:
        """Return the number of runs that ended after a time, by status, and how many of the cancelled ones had spent
        the budget of their duel.
        """
        values = [since, json.dumps([*without_exercises])]
        row = self.db.row(f"SELECT {_COUNTS} {_SINCE}", values)
        counts = _statuses(row) if row else {}
        found = self.db.row(f"SELECT {_REACHED} {_SINCE}", values) if counts.get("cancelled") else None
        return counts, found["reached"] if found else 0

    def mark(self) -> tuple[str, int, int]:
        """Return a value that changes when a run ends, is deleted, archived or unarchived, without reading the runs."""
        row = self.db.row(_MARK)
        return (str(row["newest"] or ""), row["runs"], row["archived"]) if row else ("", 0, 0)


def _statuses(row: Row) -> dict[Status, int]:
    return {status: row[status] for status in ENDED if row[status]}
