"""Idempotency keys of launches: a repeated request launches once."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.errors import ConfigError, Problem
from engine.store.connection import WriteConnection
from engine.store.timestamps import in_seconds, now

KEPT_S = 7 * 24 * 3600.0
"""Lifetime of a key; a later retry launches again."""
LONGEST = 200


@dataclass(frozen=True)
class LaunchKey:
    """A script's key of one launch, and a digest of the request."""

    text: str
    asked: str

    @classmethod
    def of(cls, text: str, asked: Mapping[str, Any]) -> "LaunchKey":
        """Return the key of a launch; raises ConfigError for an empty, too long or unprintable one."""
        if not (0 < len(text) <= LONGEST and text.isprintable()):
            raise ConfigError(
                [
                    Problem(
                        "Idempotency-Key",
                        f"Idempotency-Key must have 1 to {LONGEST} printable characters; got {len(text)}.",
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
    """Reads and writes of a launch with a key, within its change."""

    def __init__(self, db: WriteConnection) -> None:
        self.db = db

    def launched_under(self, key: LaunchKey, owner: str) -> int | None:
        """Return the run that a person launched with a key, None if there is none; raises ConfigError if the request
        was different.
        """
        row = self.db.row("SELECT run_id, asked FROM launch_keys WHERE owner = ? AND key = ?", [owner, key.text])
        if row is None:
            return None
        if row["asked"] != key.asked:
            sentence = f"Idempotency-Key was already used for run {row['run_id']} with other settings. Use a new key."
            raise ConfigError([Problem("Idempotency-Key", sentence)])
        return int(row["run_id"])

    def keep(self, key: LaunchKey, owner: str, run_id: int) -> None:
        """Store the run of a key, and delete expired keys."""
        self.db.connection.execute("DELETE FROM launch_keys WHERE made_at < ?", [in_seconds(-KEPT_S)])
        sql = "INSERT INTO launch_keys (owner, key, asked, run_id, made_at) VALUES (?, ?, ?, ?, ?)"
        self.db.connection.execute(sql, [owner, key.text, key.asked, run_id, now()])
