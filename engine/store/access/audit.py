"""Queries of the audit log: every command, done or refused, with person, time and target."""

import json
from dataclasses import dataclass

from engine.store.connection import Connection

_RENAMED = {"shut out": "disable", "let in": "enable"}
"""Commands that rows of earlier versions name otherwise, with their present names."""


@dataclass(frozen=True)
class Entry:
    """One command in the audit log."""

    id: int
    at: str
    who: str
    role: str
    """Role at that time: a role, anyone (in a lab without accounts), program, or nobody."""
    command: str
    kind: str
    targets: tuple[int | str, ...]
    detail: str
    refused: str
    """Reason of the refusal; empty if the command was done."""


class AuditReader:
    """Queries of the audit log."""

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
        """Return entries, newest first, optionally of one person, of one command, after a time, only refused ones, or
        before an id.
        """
        sql = (
            "SELECT * FROM audit WHERE (?1 IS NULL OR who = ?1) AND (?2 IS NULL OR command IN (?2, ?7)) AND at > ?3 "
            "AND (NOT ?4 OR refused <> '')"
            " AND (?5 IS NULL OR id < ?5) ORDER BY id DESC LIMIT ?6"
        )
        command = _RENAMED.get(command or "", command)
        earlier = next((old for old, new in _RENAMED.items() if new == command), None)
        return [
            Entry(
                **{
                    **dict(row),
                    "command": _RENAMED.get(row["command"], row["command"]),
                    "targets": tuple(json.loads(row["targets"])),
                }
            )
            for row in self.db.rows(sql, [who, command, since, refused, before, limit, earlier])
        ]
