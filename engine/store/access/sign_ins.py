"""Sessions of browsers: the store has only the SHA-256 of each secret, and the session's person."""

import hashlib
import secrets
from dataclasses import dataclass
from typing import Literal, get_args

from engine.access.agents import AGENT_RUNS, MOST_AGENT_RUNS, ActingAgent
from engine.access.confusables import visible
from engine.access.rules import ROLES, Permission, PersonStanding, Role
from engine.errors import ConfigError, SignInRefused
from engine.store.access.accounts import NEW_PASSWORD
from engine.store.access.authorization import Authorization, command, granted, within_agents
from engine.store.connection import Connection, WriteConnection
from engine.store.timestamps import in_seconds, now, seconds_since

Scope = Literal["read", "launch", "agent"]
"""What a token is good for; an agent's is one that launches too, marked and with a quota of its own."""
SCOPES: tuple[Scope, ...] = get_args(Scope)
Way = Literal["password", "provider"]
LASTS_S = 7 * 24 * 3600.0
"""Maximum age of a session."""
IDLE_S = 12 * 3600.0
"""Maximum idle time of a session."""
SEEN_EVERY_S = 60.0
"""Minimum interval between uses that a console records, to limit writes."""
NOBODY = "Incorrect user name or password."
STRANGER = "someone"
"""Actor name in the audit log for unknown names; no account can have it."""
_LIVE = "ended_at IS NULL AND people.disabled_at IS NULL"


@dataclass(frozen=True)
class SignedIn:
    """The current person of a session or a token."""

    name: str
    role: Role
    scope: Scope | None = None
    """Scope of a token; None for a browser."""
    granted: tuple[Permission, ...] = ()
    """Permissions that an admin has granted to this person."""
    agent: ActingAgent | None = None
    """The agent whose token it is."""

    @property
    def standing(self) -> PersonStanding:
        """What this person may do, apart from the scope of a token."""
        role = within_agents(self.role) if self.agent else self.role
        return PersonStanding(self.name, role, granted=self.granted)


@dataclass(frozen=True)
class SignIn:
    """One browser session of a person."""

    key: str
    way: Way
    browser: str
    began_at: str
    seen_at: str


class SignInReader:
    """Queries of sessions."""

    def __init__(self, db: Connection) -> None:
        self.db = db

    def signed_in(self, key: str) -> SignedIn | None:
        """Return the person of the session with this key; None if it ended or expired, or the account is disabled."""
        sql = (
            "SELECT name, role, runs_commands, seen_at, expires_at FROM sign_ins JOIN people ON people.id = person_id "
            f"WHERE key = ? AND {_LIVE}"
        )
        row = self.db.row(sql, [key])
        if row is None or row["expires_at"] <= now() or seconds_since(row["seen_at"]) > IDLE_S:
            return None
        return SignedIn(row["name"], row["role"], granted=granted(row))

    def lost_by_new_password(self, key: str) -> bool:
        """Return whether the session with this key was ended by a change of its person's password."""
        return self.db.exists("SELECT 1 FROM sign_ins WHERE key = ? AND ended_by = ?", [key, NEW_PASSWORD])

    def has_passwords(self) -> bool:
        """Return whether anybody can sign in with a password."""
        return self.db.exists("SELECT 1 FROM people WHERE password IS NOT NULL AND disabled_at IS NULL LIMIT 1")

    def of(self, name: str) -> list[SignIn]:
        """Return a person's sessions, most recently used first."""
        sql = (
            "SELECT key, way, browser, began_at, seen_at FROM sign_ins JOIN people ON people.id = person_id WHERE "
            f"name = ? AND expires_at > ? AND {_LIVE}"
        )
        found = self.db.records(SignIn, f"{sql} ORDER BY seen_at DESC", [name, now()])
        return [each for each in found if seconds_since(each.seen_at) <= IDLE_S]

    def password_of(self, name: str) -> tuple[str, str | None, bool]:
        """Return the stored name, the password hash, and whether the account is disabled; no hash for an unknown name
        or an account without a password.
        """
        row = self.db.row("SELECT name, password, disabled_at FROM people WHERE name = ?", [name])
        return (row["name"], row["password"], row["disabled_at"] is not None) if row else (name, None, False)


class SignInCommands:
    """Commands of signing in and out; engine/commands/accounts.py has authenticated the person."""

    def __init__(self, db: WriteConnection) -> None:
        self.db = db
        self._authorization = Authorization(db)

    def begin(self, name: str, way: Way, *, browser: str = "") -> str:
        """Start a session and return the secret for its cookie, always a new one to prevent session fixation.

        Raises SignInRefused for an unknown or disabled name.
        """
        secret = secrets.token_urlsafe(32)
        with self.db.change() as connection:
            row = self.db.row("SELECT id, role FROM people WHERE name = ? AND disabled_at IS NULL", [name])
            if row is None:
                raise SignInRefused("Your session has ended. Sign in again.")
            whose = {"key": key_of(secret), "person_id": row["id"], "way": way, "browser": browser[:120]}
            times = {"began_at": now(), "seen_at": now(), "expires_at": in_seconds(LASTS_S)}
            self.db.insert("sign_ins", whose | times)
            connection.execute("DELETE FROM sign_ins WHERE expires_at < ?", [in_seconds(-LASTS_S * 8)])
            self._authorization.audit("sign in", name, row["role"], "", [], f"way={way}")
        return secret

    def refuse(self, name: str, why: str, *, address: str = "") -> None:
        """Record a failed sign-in and its address. No input is recorded except the name of an existing account, because
        people type passwords into name fields.
        """
        with self.db.change():
            row = self.db.row("SELECT name FROM people WHERE name = ?", [name])
            who, where = row["name"] if row else STRANGER, f"from={address[:60]}" if address else ""
            self._authorization.audit("sign in", who, "nobody", "", [], where, refused=why)

    def renew_password(self, name: str, stored: str) -> None:
        """Store the hash of the same password with current parameters."""
        with self.db.change() as connection:
            connection.execute("UPDATE people SET password = ? WHERE name = ?", [stored, name])

    def end(self, key: str) -> Way | None:
        """End a session permanently and return its sign-in method; None if it had ended or never existed."""
        way: Way | None = None
        with self.db.change() as connection:
            sql = "SELECT name, role, way FROM sign_ins JOIN people ON people.id = person_id WHERE key = ?"
            row = self.db.row(f"{sql} AND ended_at IS NULL", [key])
            if row is not None:
                way = row["way"]
                connection.execute(
                    "UPDATE sign_ins SET ended_at = ?, ended_by = ? WHERE key = ?", [now(), row["name"], key]
                )
                self._authorization.audit("sign out", row["name"], row["role"], "", [], "")
        return way

    def note_use(self, key: str) -> None:
        """Record that a session or a token is in use; writes nothing if that was recorded recently."""
        sql = "SELECT 1 FROM sign_ins WHERE key = ?1 AND seen_at < ?2"
        sql += " UNION SELECT 1 FROM tokens WHERE key = ?1 AND coalesce(used_at, '') < ?2"
        if self.db.exists(sql, [key, in_seconds(-SEEN_EVERY_S / 2)]):  # a console's next use is a moment later
            with self.db.change() as connection:
                connection.execute("UPDATE sign_ins SET seen_at = ? WHERE key = ?", [now(), key])
                connection.execute("UPDATE tokens SET used_at = ? WHERE key = ?", [now(), key])


def key_of(secret: str) -> str:
    """Return the stored key of a 256-bit secret: its SHA-256 in hexadecimal digits."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


# ---- API tokens of scripts: the store has only the SHA-256 of each token, and its person ---------------------------

TOKEN_DAYS, MOST_TOKENS = 365, 50
TOKEN_MARK = "plab_"
"""Prefix of every token, so that leaked ones are recognizable."""


_SCOPE = "iif(agent_runs IS NULL, scope, 'agent') AS scope, agent_runs"


@dataclass(frozen=True)
class Token:
    """A token of a person's script."""

    id: int
    name: str
    scope: Scope
    agent_runs: int | None
    """Most runs of an agent that are queued or running at once; None for other scopes."""
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
            f"SELECT tokens.id, tokens.name AS token, people.name, role, runs_commands, {_SCOPE}, expires_at"
            " FROM tokens JOIN people ON people.id = person_id WHERE key = ?"
            " AND revoked_at IS NULL AND people.disabled_at IS NULL"
        )
        row = self.db.row(sql, [key_of(token)])
        if row is None or row["expires_at"] <= now():
            return None
        is_agent = row["agent_runs"] is not None
        agent = ActingAgent(row["token"], row["agent_runs"], row["id"]) if is_agent else None
        return SignedIn(row["name"], row["role"], row["scope"], granted(row), agent)

    def of(self, name: str) -> list[Token]:
        """Return a person's tokens, including revoked ones, newest first."""
        sql = (
            f"SELECT tokens.id, tokens.name, {_SCOPE}, made_at, expires_at, used_at, revoked_at FROM tokens JOIN "
            "people ON people.id = person_id"
        )
        return self.db.records(Token, f"{sql} WHERE people.name = ? ORDER BY tokens.id DESC", [name])


class TokenCommands:
    """Commands of tokens."""

    def __init__(self, db: WriteConnection) -> None:
        self.db = db

    @command("make token", "person")
    def make(
        self, person: str, name: str, scope: Scope, *, by: str, days: int = 90, agent_runs: int | None = None
    ) -> str:
        """Return a new token of a person, which is shown only once; one of scope agent may have `agent_runs` runs
        queued or running at once (default: 4). Raises ConfigError for an invalid name, scope or number.
        """
        name = visible("name", " ".join(name.split()))
        if not 0 < len(name) <= 60:
            raise ConfigError.of(
                "name", f"A token name must have 1 to 60 characters; got {len(name)}. Name its purpose."
            )
        if scope not in SCOPES:
            raise ConfigError.of("scope", f"scope must be read, launch or agent; got '{scope}'.")
        if agent_runs is not None and (scope != "agent" or not 1 <= agent_runs <= MOST_AGENT_RUNS):
            what = f"agent_runs must be 1 to {MOST_AGENT_RUNS:,}, for scope agent; got {agent_runs} for scope {scope}."
            raise ConfigError.of("agent_runs", what)
        if not 1 <= days <= TOKEN_DAYS:
            raise ConfigError.of("days", f"A token must expire after 1 to {TOKEN_DAYS} days; got {days}.")
        row = self.db.row("SELECT id, name, role FROM people WHERE name = ? AND disabled_at IS NULL", [person])
        if row is None:
            why = f"'{person}' has no account, so no token can be created for them."
            if not self.db.row("SELECT id FROM people LIMIT 1"):
                why = "This lab has no accounts, so scripts need no token: leave it out, and name an owner in launches."
            raise ConfigError.of("person", why)
        if scope != "read" and ROLES.index(row["role"]) < ROLES.index("member"):
            raise ConfigError.of(
                "scope",
                f"{row['name']} is a viewer and can't launch runs, so neither can their tokens. Create "
                "a token with scope read.",
            )
        of_person = "SELECT count(*) FROM tokens WHERE person_id = ?"
        there = self.db.number(f"{of_person} AND revoked_at IS NULL AND expires_at > ?", [row["id"], now()])
        if there >= MOST_TOKENS:
            raise ConfigError.of(
                "name", f"{row['name']} has {there} tokens; the limit is {MOST_TOKENS}. Revoke one first."
            )
        token = TOKEN_MARK + secrets.token_urlsafe(32)
        times = {"made_at": now(), "expires_at": in_seconds(days * 86_400)}
        kind = {"scope": "launch", "agent_runs": agent_runs or AGENT_RUNS} if scope == "agent" else {"scope": scope}
        self.db.insert("tokens", {"key": key_of(token), "person_id": row["id"], "name": name, **kind, **times})
        return token

    @command("revoke token", "token")
    def revoke(self, token_id: int, *, by: str) -> bool:
        """Revoke a token permanently; False if it does not exist or was already revoked."""
        sql = "UPDATE tokens SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL"
        return self.db.connection.execute(sql, [now(), token_id]).rowcount > 0
