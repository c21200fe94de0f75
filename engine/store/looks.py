"""When each person last looked at the Home page, and from when on what ended is new to them.

Looks that lie less than half an hour apart are one visit: who comes back from a run, or loads the page again, finds the
same news.
"""

from datetime import UTC, datetime, timedelta

from engine.store.clock import now, seconds_since
from engine.store.connection import Connected, Row, Writing

VISIT_S = 1_800.0
FIRST_S = 86_400.0
"""To a person who has not looked before, what ended within the last day is new."""
_LOOK = "SELECT looked_at, new_since FROM looks WHERE person = ?"


class Looks(Connected):
    """The question about looks."""

    def new_since(self, person: str | None = None) -> str:
        """Return from when on what ended is new to a person who looks now; to nobody known the last day is."""
        return _since(self.row(_LOOK, [person]))


class LookCommands(Writing):
    """The commands about looks."""

    def look(self, person: str) -> str:
        """Note that a person looks now, and return from when on what ended is new to them."""
        with self.change() as connection:
            since = _since(connection.execute(_LOOK, [person]).fetchone())
            self._note_look(person, since)
        return since

    def mark_seen(self, person: str) -> str:
        """Let nothing that ended before this moment be new to a person; return the moment."""
        at = now()
        with self.change():
            self._note_look(person, at)
        return at

    def _note_look(self, person: str, since: str) -> None:
        self.connection.execute(
            "INSERT OR REPLACE INTO looks (person, looked_at, new_since) VALUES (?, ?, ?)", [person, now(), since]
        )


def _since(row: Row | None) -> str:
    if row is None:
        return (
            (datetime.now(UTC) - timedelta(seconds=FIRST_S)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        )
    return str(row["new_since"] if seconds_since(row["looked_at"]) < VISIT_S else row["looked_at"])
