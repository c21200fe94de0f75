"""When each person last looked at the Home page, and from when on what ended is new to them.

Looks that lie less than half an hour apart are one visit: who comes back from a run, or loads the page again, finds the
same news.
"""

from datetime import UTC, datetime, timedelta

from engine.store.connection import Connection, Row, WriteConnection
from engine.store.timestamps import now, seconds_since

VISIT_S = 1_800.0
FIRST_S = 86_400.0
"""To a person who has not looked before, what ended within the last day is new."""
_LOOK = "SELECT looked_at, new_since FROM looks WHERE person = ?"


class VisitReader:
    """The question about looks."""

    def __init__(self, db: Connection) -> None:
        self.db = db

    def new_since(self, person: str | None = None) -> str:
        """Return from when on what ended is new to a person who looks now; to nobody known the last day is."""
        return _since(self.db.row(_LOOK, [person]))


class VisitCommands:
    """The commands about looks."""

    def __init__(self, db: WriteConnection) -> None:
        self.db = db

    def note(self, person: str) -> str:
        """Note that a person looks now, and return from when on what ended is new to them."""
        with self.db.change() as connection:
            since = _since(connection.execute(_LOOK, [person]).fetchone())
            self._write(person, since)
        return since

    def mark_seen(self, person: str) -> str:
        """Let nothing that ended before this moment be new to a person; return the moment."""
        at = now()
        with self.db.change():
            self._write(person, at)
        return at

    def _write(self, person: str, since: str) -> None:
        self.db.connection.execute(
            "INSERT OR REPLACE INTO looks (person, looked_at, new_since) VALUES (?, ?, ?)", [person, now(), since]
        )


def _since(row: Row | None) -> str:
    if row is None:
        return (
            (datetime.now(UTC) - timedelta(seconds=FIRST_S)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        )
    return str(row["new_since"] if seconds_since(row["looked_at"]) < VISIT_S else row["looked_at"])
