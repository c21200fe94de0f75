"""Launches that were given a key, so that a request that is sent twice launches once."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.errors import ConfigError, Problem
from engine.store.connection import WriteConnection
from engine.store.timestamps import in_seconds, now

KEPT_S = 7 * 24 * 3600.0
"""So long a key is known; a retry that comes later launches anew."""
LONGEST = 200


@dataclass(frozen=True)
class LaunchKey:
    """What a script calls one launch of its own, and a digest of what it asked for under that name."""

    text: str
    asked: str

    @classmethod
    def of(cls, text: str, asked: Mapping[str, Any]) -> "LaunchKey":
        """Return the key of a launch; raises ConfigError for one that is empty, too long or can't be shown."""
        if not (0 < len(text) <= LONGEST and text.isprintable()):
            raise ConfigError(
                [
                    Problem(
                        "Idempotency-Key",
                        f"Idempotency-Key has 1 to {LONGEST} characters that can be shown, got {len(text)}.",
                    )
                ]
            )
        return cls(
            text,
            hashlib.sha256(
                json.dumps(asked, sort_keys=True, default=str).encode("utf-8", "backslashreplace")
            ).hexdigest(),
        )


class IdempotencyKeys:
    """What a launch with a key reads and writes, inside its own change."""

    def __init__(self, db: WriteConnection) -> None:
        self.db = db

    def launched_under(self, key: LaunchKey, owner: str) -> int | None:
        """Return the run that somebody launched under a key, None where there is none; raises ConfigError where it was
        for something else.
        """
        row = self.db.row("SELECT run_id, asked FROM launch_keys WHERE owner = ? AND key = ?", [owner, key.text])
        if row is None:
            return None
        if row["asked"] != key.asked:
            sentence = (
                f"Under this Idempotency-Key run {row['run_id']} was launched with other settings. Take a new key "
                "for another launch."
            )
            raise ConfigError([Problem("Idempotency-Key", sentence)])
        return int(row["run_id"])

    def keep(self, key: LaunchKey, owner: str, run_id: int) -> None:
        """Keep that a key launched a run, and forget keys that are old."""
        self.db.connection.execute("DELETE FROM launch_keys WHERE made_at < ?", [in_seconds(-KEPT_S)])
        sql = "INSERT INTO launch_keys (owner, key, asked, run_id, made_at) VALUES (?, ?, ?, ?, ?)"
        self.db.connection.execute(sql, [owner, key.text, key.asked, run_id, now()])
