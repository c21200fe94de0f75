"""The audit log as it is read: every command that anyone gave, done or refused, with who, when and what."""

import json
from dataclasses import dataclass

from engine.store.connection import Connection


@dataclass(frozen=True)
class Entry:
    """One command that was given."""

    id: int
    at: str
    who: str
    role: str
    """What they were then: a role, anyone (in a lab without accounts), program, or nobody."""
    command: str
    kind: str
    targets: tuple[int | str, ...]
    detail: str
    refused: str
    """Why it was refused, empty where it was done."""


class AuditReader:
    """The question about the audit log."""

    def __init__(self, db: Connection) -> None:
        self.db = db

    def entries(
        self,
        *,
        who: str | None = None,
        command: str | None = None,
        since: str = "",
        refused: bool = False,
        before: int | None = None,
        limit: int = 100,
    ) -> list[Entry]:
        """Return entries, the newest first: of one person, of one command, after a moment, only refused ones, and those
        before an id, each where asked.
        """
        sql = (
            "SELECT * FROM audit WHERE (?1 IS NULL OR who = ?1) AND (?2 IS NULL OR command = ?2) AND at > ?3 "
            "AND (NOT ?4 OR refused <> '')"
            " AND (?5 IS NULL OR id < ?5) ORDER BY id DESC LIMIT ?6"
        )
        return [
            Entry(**{**dict(row), "targets": tuple(json.loads(row["targets"]))})
            for row in self.db.rows(sql, [who, command, since, refused, before, limit])
        ]
