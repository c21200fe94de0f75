"""API tokens of scripts: the store has only the SHA-256 of each token, and its person."""

import secrets
from dataclasses import dataclass

from engine.access.confusables import visible
from engine.access.rules import ROLES
from engine.errors import ConfigError, Problem
from engine.store.access.authorization import command
from engine.store.access.sign_ins import Scope, SignedIn, key_of
from engine.store.connection import Connection, WriteConnection
from engine.store.timestamps import in_seconds, now

TOKEN_DAYS, MOST_TOKENS = 365, 50
TOKEN_MARK = "plab_"
"""Prefix of every token, so that leaked ones are recognizable."""


@dataclass(frozen=True)
class Token:
    """A token of a person's script."""

    id: int
    name: str
    scope: Scope
    made_at: str
    expires_at: str
    used_at: str | None
    revoked_at: str | None


class TokenReader:
    """Queries of tokens."""

    def __init__(self, db: Connection) -> None:
        self.db = db

    def holder(self, token: str) -> SignedIn | None:
        """Return the person of a token; None if it was revoked or expired, or the account is disabled."""
        sql = (
            "SELECT people.name, role, scope, expires_at FROM tokens JOIN people ON people.id = person_id"
            " WHERE key = ? AND revoked_at IS NULL AND people.disabled_at IS NULL"
        )
        row = self.db.row(sql, [key_of(token)])
        return SignedIn(row["name"], row["role"], row["scope"]) if row and row["expires_at"] > now() else None

    def of(self, name: str) -> list[Token]:
        """Return a person's tokens, including revoked ones, newest first."""
        sql = (
            "SELECT tokens.id, tokens.name, scope, made_at, expires_at, used_at, revoked_at FROM tokens JOIN "
            "people ON people.id = person_id"
        )
        return [Token(*row) for row in self.db.rows(f"{sql} WHERE people.name = ? ORDER BY tokens.id DESC", [name])]


class TokenCommands:
    """Commands of tokens."""

    def __init__(self, db: WriteConnection) -> None:
        self.db = db

    @command("make token", "person")
    def make(self, person: str, name: str, scope: Scope, *, by: str, days: int = 90) -> str:
        """Return a new token of a person, which is shown only once. Raises ConfigError for an invalid name, scope or
        number of days.
        """
        name = visible("name", " ".join(name.split()))
        if not 0 < len(name) <= 60:
            raise ConfigError(
                [Problem("name", f"A token name must have 1 to 60 characters; got {len(name)}. Name its purpose.")]
            )
        if scope not in ("read", "launch"):
            raise ConfigError([Problem("scope", f"scope must be read or launch; got '{scope}'.")])
        if not 1 <= days <= TOKEN_DAYS:
            raise ConfigError([Problem("days", f"A token must expire after 1 to {TOKEN_DAYS} days; got {days}.")])
        row = self.db.row("SELECT id, name, role FROM people WHERE name = ? AND disabled_at IS NULL", [person])
        if row is None:
            raise ConfigError([Problem("person", f"'{person}' has no account, so no token can be created for them.")])
        if scope == "launch" and ROLES.index(row["role"]) < ROLES.index("member"):
            raise ConfigError(
                [
                    Problem(
                        "scope",
                        (
                            f"{row['name']} is a viewer and can't launch runs, so neither can their tokens. Create "
                            "a token with scope read."
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
                [Problem("name", f"{row['name']} has {there} tokens; the limit is {MOST_TOKENS}. Revoke one first.")]
            )
        token = TOKEN_MARK + secrets.token_urlsafe(32)
        sql = "INSERT INTO tokens (key, person_id, name, scope, made_at, expires_at) VALUES (?, ?, ?, ?, ?, ?)"
        self.db.connection.execute(sql, [key_of(token), row["id"], name, scope, now(), in_seconds(days * 86_400)])
        return token

    @command("revoke token", "token")
    def revoke(self, token_id: int, *, by: str) -> bool:
        """Revoke a token permanently; False if it does not exist or was already revoked."""
        sql = "UPDATE tokens SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL"
        return self.db.connection.execute(sql, [now(), token_id]).rowcount > 0
