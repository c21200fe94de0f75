"""Tokens: what a script shows instead of a password, of which only the SHA-256 is kept, and whom it stands for."""

import secrets
from dataclasses import dataclass

from engine.access.rules import ROLES
from engine.errors import ConfigError, Problem
from engine.store.access.authorization import command
from engine.store.access.sign_ins import Scope, SignedIn, key_of
from engine.store.connection import Connection, WriteConnection
from engine.store.timestamps import in_seconds, now

TOKEN_DAYS, MOST_TOKENS = 365, 50
TOKEN_MARK = "plab_"
"""What a token begins with, so that it is known where it turns up by accident."""


@dataclass(frozen=True)
class Token:
    """What a person's script shows."""

    id: int
    name: str
    scope: Scope
    made_at: str
    expires_at: str
    used_at: str | None
    revoked_at: str | None


class TokenReader:
    """The questions about tokens."""

    def __init__(self, db: Connection) -> None:
        self.db = db

    def holder(self, token: str) -> SignedIn | None:
        """Return whom a script's token stands for; None where it was taken back or is too old, or its person is shut
        out.
        """
        sql = (
            "SELECT people.name, role, scope, expires_at FROM tokens JOIN people ON people.id = person_id"
            " WHERE key = ? AND revoked_at IS NULL AND people.disabled_at IS NULL"
        )
        row = self.db.row(sql, [key_of(token)])
        return SignedIn(row["name"], row["role"], row["scope"]) if row and row["expires_at"] > now() else None

    def of(self, name: str) -> list[Token]:
        """Return a person's tokens, those that were taken back among them, newest first."""
        sql = (
            "SELECT tokens.id, tokens.name, scope, made_at, expires_at, used_at, revoked_at FROM tokens JOIN "
            "people ON people.id = person_id"
        )
        return [Token(*row) for row in self.db.rows(f"{sql} WHERE people.name = ? ORDER BY tokens.id DESC", [name])]


class TokenCommands:
    """The commands about tokens."""

    def __init__(self, db: WriteConnection) -> None:
        self.db = db

    @command("make token", "person")
    def make(self, person: str, name: str, scope: Scope, *, by: str, days: int = 90) -> str:
        """Return a new token that stands for a person; it is shown this once. Raises ConfigError for a name, scope or
        number of days that does not do.
        """
        name = " ".join(name.split())
        if not 0 < len(name) <= 60:
            raise ConfigError(
                [
                    Problem(
                        "name", f"A token needs a name of 1 to 60 characters that says what it is for, got {len(name)}."
                    )
                ]
            )
        if scope not in ("read", "launch"):
            raise ConfigError([Problem("scope", f"The scope of a token is read or launch, got '{scope}'.")])
        if not 1 <= days <= TOKEN_DAYS:
            raise ConfigError([Problem("days", f"A token lasts 1 to {TOKEN_DAYS} days, got {days}.")])
        row = self.db.row("SELECT id, name, role FROM people WHERE name = ? AND disabled_at IS NULL", [person])
        if row is None:
            raise ConfigError(
                [Problem("person", f"Nobody named '{person}' has an account here, so no token can stand for them.")]
            )
        if scope == "launch" and ROLES.index(row["role"]) < ROLES.index("member"):
            raise ConfigError(
                [
                    Problem(
                        "scope",
                        (
                            f"{row['name']} is a viewer and may not launch, so no token of theirs may. Make one "
                            "with the scope read."
                        ),
                    )
                ]
            )
        (there,) = self.db.rows(
            "SELECT count(*) FROM tokens WHERE person_id = ? AND revoked_at IS NULL AND expires_at > ?",
            [row["id"], now()],
        )[0]
        if there >= MOST_TOKENS:
            raise ConfigError(
                [Problem("name", f"{row['name']} has {there} tokens, and may have {MOST_TOKENS}. Revoke one first.")]
            )
        token = TOKEN_MARK + secrets.token_urlsafe(32)
        sql = "INSERT INTO tokens (key, person_id, name, scope, made_at, expires_at) VALUES (?, ?, ?, ?, ?, ?)"
        self.db.connection.execute(sql, [key_of(token), row["id"], name, scope, now(), in_seconds(days * 86_400)])
        return token

    @command("revoke token", "token")
    def revoke(self, token_id: int, *, by: str) -> bool:
        """Take a token back for good; False where it is not there or was taken back already."""
        sql = "UPDATE tokens SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL"
        return self.db.connection.execute(sql, [now(), token_id]).rowcount > 0
