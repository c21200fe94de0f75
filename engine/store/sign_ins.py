"""Sign-ins and tokens: what a browser or a script shows, of which only the SHA-256 is kept, and whom it stands for."""

import hashlib
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from engine.access.rules import ROLES, Role
from engine.errors import ConfigError, Problem, SignInRefused
from engine.store.clock import now, seconds_since
from engine.store.connection import Connected
from engine.store.guarding import Guarded, command

Scope = Literal["read", "launch"]
Way = Literal["password", "provider"]
LASTS_S = 7 * 24 * 3600.0
"""A sign-in ends so long after it began, whatever happens."""
IDLE_S = 12 * 3600.0
"""And so long after it was last used."""
SEEN_EVERY_S = 300.0
"""Its use is noted so often at most: a look is no reason to write."""
TOKEN_DAYS, MOST_TOKENS = 365, 50
TOKEN_MARK = "plab_"
"""What a token begins with, so that it is known where it turns up by accident."""
NOBODY = "That name and password do not belong together, or nobody has that name."
STRANGER = "someone"
"""Whom the audit log names where nobody has the name that was typed; no account can have this one."""
_LIVE = "ended_at IS NULL AND people.disabled_at IS NULL"


@dataclass(frozen=True)
class SignedIn:
    """Whom a sign-in or a token stands for at this moment."""

    name: str
    role: Role
    scope: Scope | None = None
    """What a token may be used for; None for a browser."""


@dataclass(frozen=True)
class SignIn:
    """One browser that somebody is signed in on."""

    key: str
    way: Way
    browser: str
    began_at: str
    seen_at: str


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


class SignIns(Connected):
    """The questions about sign-ins and tokens."""

    def signed_in(self, key: str) -> SignedIn | None:
        """Return whom the sign-in with that key stands for; None where it was ended, is too old or was idle too long,
        or its person is shut out.
        """
        sql = (
            "SELECT name, role, seen_at, expires_at FROM sign_ins JOIN people ON people.id = person_id WHERE key "
            f"= ? AND {_LIVE}"
        )
        row = self.row(sql, [key])
        if row is None or row["expires_at"] <= now() or seconds_since(row["seen_at"]) > IDLE_S:
            return None
        return SignedIn(row["name"], row["role"])

    def has_passwords(self) -> bool:
        """Say whether anybody can sign in with a password."""
        return self.row("SELECT 1 FROM people WHERE password IS NOT NULL AND disabled_at IS NULL LIMIT 1") is not None

    def token_holder(self, token: str) -> SignedIn | None:
        """Return whom a script's token stands for; None where it was taken back or is too old, or its person is shut
        out.
        """
        sql = (
            "SELECT people.name, role, scope, expires_at FROM tokens JOIN people ON people.id = person_id"
            " WHERE key = ? AND revoked_at IS NULL AND people.disabled_at IS NULL"
        )
        row = self.row(sql, [key_of(token)])
        return SignedIn(row["name"], row["role"], row["scope"]) if row and row["expires_at"] > now() else None

    def sign_ins(self, name: str) -> list[SignIn]:
        """Return the browsers that somebody is signed in on, the one used last first."""
        sql = (
            "SELECT key, way, browser, began_at, seen_at FROM sign_ins JOIN people ON people.id = person_id WHERE "
            f"name = ? AND expires_at > ? AND {_LIVE}"
        )
        found = [SignIn(*row) for row in self.rows(f"{sql} ORDER BY seen_at DESC", [name, now()])]
        return [each for each in found if seconds_since(each.seen_at) <= IDLE_S]

    def tokens(self, name: str) -> list[Token]:
        """Return a person's tokens, those that were taken back among them, newest first."""
        sql = (
            "SELECT tokens.id, tokens.name, scope, made_at, expires_at, used_at, revoked_at FROM tokens JOIN "
            "people ON people.id = person_id"
        )
        return [Token(*row) for row in self.rows(f"{sql} WHERE people.name = ? ORDER BY tokens.id DESC", [name])]

    def password_of(self, name: str) -> tuple[str, str | None]:
        """Return the name as it is kept and the hash of its password; without a hash where nobody active has that name
        or no password is set.
        """
        row = self.row("SELECT name, password FROM people WHERE name = ? AND disabled_at IS NULL", [name])
        return (row["name"], row["password"]) if row else (name, None)


class SignInCommands(Guarded):
    """What signing in and out writes; who someone is was proved before (engine/commands/sign_in.py)."""

    def begin_sign_in(self, name: str, way: Way, *, browser: str = "") -> str:
        """Let a browser in as a person and return the secret that its cookie is to hold: always a new one, so that none
        can be fixed beforehand.

        Raises SignInRefused where nobody active has that name.
        """
        secret = secrets.token_urlsafe(32)
        with self.change() as connection:
            row = self.row("SELECT id, role FROM people WHERE name = ? AND disabled_at IS NULL", [name])
            if row is None:
                raise SignInRefused("This sign-in has ended. Sign in again.")
            sql = (
                "INSERT INTO sign_ins (key, person_id, way, browser, began_at, seen_at, expires_at) VALUES (?, ?, "
                "?, ?, ?, ?, ?)"
            )
            connection.execute(sql, [key_of(secret), row["id"], way, browser[:120], now(), now(), _in(LASTS_S)])
            connection.execute("DELETE FROM sign_ins WHERE expires_at < ?", [_in(-LASTS_S * 8)])
            self._audit("sign in", name, row["role"], "", [], f"way={way}")
        return secret

    def refuse_sign_in(self, name: str, why: str, *, address: str = "") -> None:
        """Keep that a sign-in failed, and from where. Nothing that was typed is kept, but the name of somebody who has
        an account.

        People do type their password where the name belongs.
        """
        with self.change():
            row = self.row("SELECT name FROM people WHERE name = ?", [name])
            self._audit(
                "sign in",
                row["name"] if row else STRANGER,
                "nobody",
                "",
                [],
                f"from={address[:60]}" if address else "",
                refused=why,
            )

    def renew_password(self, name: str, stored: str) -> None:
        """Keep the hash of the same password made with today's parameters."""
        with self.change() as connection:
            connection.execute("UPDATE people SET password = ? WHERE name = ?", [stored, name])

    def sign_out(self, key: str) -> Way | None:
        """End a sign-in for good and return the way that it came in; None where it had ended or never was."""
        way: Way | None = None
        with self.change() as connection:
            row = self.row(
                (
                    "SELECT name, role, way FROM sign_ins JOIN people ON people.id = person_id WHERE key = ? AND "
                    "ended_at IS NULL"
                ),
                [key],
            )
            if row is not None:
                way = row["way"]
                connection.execute(
                    "UPDATE sign_ins SET ended_at = ?, ended_by = ? WHERE key = ?", [now(), row["name"], key]
                )
                self._audit("sign out", row["name"], row["role"], "", [], "")
        return way

    def note_use(self, key: str) -> None:
        """Note that a sign-in or a token is in use; writes nothing where that was noted a moment ago."""
        before = _in(-SEEN_EVERY_S)
        if self.row(
            (
                "SELECT 1 FROM sign_ins WHERE key = ?1 AND seen_at < ?2 UNION SELECT 1 FROM tokens WHERE key = ?1 "
                "AND coalesce(used_at, '') < ?2"
            ),
            [key, before],
        ):
            with self.change() as connection:
                connection.execute("UPDATE sign_ins SET seen_at = ? WHERE key = ?", [now(), key])
                connection.execute("UPDATE tokens SET used_at = ? WHERE key = ?", [now(), key])

    @command("make token", "person")
    def make_token(self, person: str, name: str, scope: Scope, *, by: str, days: int = 90) -> str:
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
        row = self.row("SELECT id, name, role FROM people WHERE name = ? AND disabled_at IS NULL", [person])
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
        (there,) = self.rows(
            "SELECT count(*) FROM tokens WHERE person_id = ? AND revoked_at IS NULL AND expires_at > ?",
            [row["id"], now()],
        )[0]
        if there >= MOST_TOKENS:
            raise ConfigError(
                [Problem("name", f"{row['name']} has {there} tokens, and may have {MOST_TOKENS}. Revoke one first.")]
            )
        token = TOKEN_MARK + secrets.token_urlsafe(32)
        sql = "INSERT INTO tokens (key, person_id, name, scope, made_at, expires_at) VALUES (?, ?, ?, ?, ?, ?)"
        self.connection.execute(sql, [key_of(token), row["id"], name, scope, now(), _in(days * 86_400)])
        return token

    @command("revoke token", "token")
    def revoke_token(self, token_id: int, *, by: str) -> bool:
        """Take a token back for good; False where it is not there or was taken back already."""
        sql = "UPDATE tokens SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL"
        return self.connection.execute(sql, [now(), token_id]).rowcount > 0


def key_of(secret: str) -> str:
    """Return what is kept of a secret of 256 bits: its SHA-256 in hexadecimal digits."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


def _in(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
