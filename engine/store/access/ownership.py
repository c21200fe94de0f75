"""What each person owns in the lab: runs, live runs, and the time of the last access."""

from dataclasses import dataclass

from engine.store.connection import Connection
from engine.store.records import ALIVE

_ALIVE = ", ".join(f"'{status}'" for status in ALIVE)
_HELD = f"""
SELECT owner, count(*) AS runs, coalesce(sum(status IN ({_ALIVE})), 0) AS are_on, coalesce(sum(status = 'queued'),
    0) AS wait FROM runs GROUP BY owner
"""
_SEEN = """
SELECT name, max(at) AS at FROM (
    SELECT person_id, seen_at AS at FROM sign_ins UNION ALL SELECT person_id, used_at FROM tokens
        WHERE used_at IS NOT NULL
) JOIN people ON people.id = person_id GROUP BY person_id
"""


@dataclass(frozen=True)
class Holding:
    """The runs of one owner."""

    runs: int
    on: int
    queued: int


class OwnershipReader:
    """Queries of ownership, including owners without an account."""

    def __init__(self, db: Connection) -> None:
        self.db = db

    def holdings(self) -> dict[str, Holding]:
        """Return the holdings of each owner."""
        return {row["owner"]: Holding(row["runs"], row["are_on"], row["wait"]) for row in self.db.rows(_HELD)}

    def active_runs(self, owner: str) -> list[int]:
        """Return the queued and live runs of an owner."""
        sql = f"SELECT id FROM runs WHERE owner = ? AND status IN ('queued', {_ALIVE}) ORDER BY id"
        return [row["id"] for row in self.db.rows(sql, [owner])]

    def last_seen(self) -> dict[str, str]:
        """Return the last request of each person's browsers and scripts, accurate to a few minutes; people without
        requests are omitted.
        """
        return {row["name"]: row["at"] for row in self.db.rows(_SEEN)}

    def owner_of_each(self) -> dict[int, str]:
        """Return the owner of each run."""
        return {row["id"]: row["owner"] for row in self.db.rows("SELECT id, owner FROM runs")}
