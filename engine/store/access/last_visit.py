"""Each person's last visit of the Home page, and the time from which ended runs are new to them.

Page views less than half an hour apart are one visit, so that reloading the page, or returning from a run, shows the
same news.
"""

from datetime import UTC, datetime, timedelta

from engine.store.connection import Connection, Row, WriteConnection
from engine.store.timestamps import now, seconds_since

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
        self.db.connection.execute(
            "INSERT OR REPLACE INTO looks (person, looked_at, new_since) VALUES (?, ?, ?)", [person, now(), since]
        )


def _is_first(row: Row | None) -> bool:
    return row is None or (not row["new_since"] and seconds_since(row["looked_at"]) < VISIT_S)


def _since(row: Row | None) -> str:
    if row is None or _is_first(row):
        return (
            (datetime.now(UTC) - timedelta(seconds=FIRST_S)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        )
    return str(row["new_since"] if seconds_since(row["looked_at"]) < VISIT_S else row["looked_at"])
