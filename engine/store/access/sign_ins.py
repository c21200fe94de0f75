"""Sign-ins: what a browser shows, of which only the SHA-256 is kept, and whom it stands for."""

import hashlib
import secrets
from dataclasses import dataclass
from typing import Literal

from engine.access.rules import Role
from engine.errors import SignInRefused
from engine.store.access.authorization import Authorization
from engine.store.connection import Connection, WriteConnection
from engine.store.timestamps import in_seconds, now, seconds_since

Scope = Literal["read", "launch"]
Way = Literal["password", "provider"]
LASTS_S = 7 * 24 * 3600.0
"""A sign-in ends so long after it began, whatever happens."""
IDLE_S = 12 * 3600.0
"""And so long after it was last used."""
SEEN_EVERY_S = 300.0
"""Its use is noted so often at most: a look is no reason to write."""
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


class SignInReader:
    """The questions about sign-ins."""

    def __init__(self, db: Connection) -> None:
        self.db = db

    def signed_in(self, key: str) -> SignedIn | None:
        """Return whom the sign-in with that key stands for; None where it was ended, is too old or was idle too long,
        or its person is shut out.
        """
        sql = (
            "SELECT name, role, seen_at, expires_at FROM sign_ins JOIN people ON people.id = person_id WHERE key "
            f"= ? AND {_LIVE}"
        )
        row = self.db.row(sql, [key])
        if row is None or row["expires_at"] <= now() or seconds_since(row["seen_at"]) > IDLE_S:
            return None
        return SignedIn(row["name"], row["role"])

    def has_passwords(self) -> bool:
        """Say whether anybody can sign in with a password."""
        return (
            self.db.row("SELECT 1 FROM people WHERE password IS NOT NULL AND disabled_at IS NULL LIMIT 1") is not None
        )

    def of(self, name: str) -> list[SignIn]:
        """Return the browsers that somebody is signed in on, the one used last first."""
        sql = (
            "SELECT key, way, browser, began_at, seen_at FROM sign_ins JOIN people ON people.id = person_id WHERE "
            f"name = ? AND expires_at > ? AND {_LIVE}"
        )
        found = [SignIn(*row) for row in self.db.rows(f"{sql} ORDER BY seen_at DESC", [name, now()])]
        return [each for each in found if seconds_since(each.seen_at) <= IDLE_S]

    def password_of(self, name: str) -> tuple[str, str | None]:
        """Return the name as it is kept and the hash of its password; without a hash where nobody active has that name
        or no password is set.
        """
        row = self.db.row("SELECT name, password FROM people WHERE name = ? AND disabled_at IS NULL", [name])
        return (row["name"], row["password"]) if row else (name, None)


class SignInCommands:
    """What signing in and out writes; who someone is was proved before (engine/commands/sign_in.py)."""

    def __init__(self, db: WriteConnection) -> None:
        self.db = db
        self._authorization = Authorization(db)

    def begin(self, name: str, way: Way, *, browser: str = "") -> str:
        """Let a browser in as a person and return the secret that its cookie is to hold: always a new one, so that none
        can be fixed beforehand.

        Raises SignInRefused where nobody active has that name.
        """
        secret = secrets.token_urlsafe(32)
        with self.db.change() as connection:
            row = self.db.row("SELECT id, role FROM people WHERE name = ? AND disabled_at IS NULL", [name])
            if row is None:
                raise SignInRefused("This sign-in has ended. Sign in again.")
            sql = (
                "INSERT INTO sign_ins (key, person_id, way, browser, began_at, seen_at, expires_at) VALUES (?, ?, "
                "?, ?, ?, ?, ?)"
            )
            connection.execute(sql, [key_of(secret), row["id"], way, browser[:120], now(), now(), in_seconds(LASTS_S)])
            connection.execute("DELETE FROM sign_ins WHERE expires_at < ?", [in_seconds(-LASTS_S * 8)])
            self._authorization.audit("sign in", name, row["role"], "", [], f"way={way}")
        return secret

    def refuse(self, name: str, why: str, *, address: str = "") -> None:
        """Keep that a sign-in failed, and from where. Nothing that was typed is kept, but the name of somebody who has
        an account.

        People do type their password where the name belongs.
        """
        with self.db.change():
            row = self.db.row("SELECT name FROM people WHERE name = ?", [name])
            self._authorization.audit(
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
        with self.db.change() as connection:
            connection.execute("UPDATE people SET password = ? WHERE name = ?", [stored, name])

    def end(self, key: str) -> Way | None:
        """End a sign-in for good and return the way that it came in; None where it had ended or never was."""
        way: Way | None = None
        with self.db.change() as connection:
            row = self.db.row(
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
                self._authorization.audit("sign out", row["name"], row["role"], "", [], "")
        return way

    def note_use(self, key: str) -> None:
        """Note that a sign-in or a token is in use; writes nothing where that was noted a moment ago."""
        before = in_seconds(-SEEN_EVERY_S)
        if self.db.row(
            (
                "SELECT 1 FROM sign_ins WHERE key = ?1 AND seen_at < ?2 UNION SELECT 1 FROM tokens WHERE key = ?1 "
                "AND coalesce(used_at, '') < ?2"
            ),
            [key, before],
        ):
            with self.db.change() as connection:
                connection.execute("UPDATE sign_ins SET seen_at = ? WHERE key = ?", [now(), key])
                connection.execute("UPDATE tokens SET used_at = ? WHERE key = ?", [now(), key])


def key_of(secret: str) -> str:
    """Return what is kept of a secret of 256 bits: its SHA-256 in hexadecimal digits."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()
