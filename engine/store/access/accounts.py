"""Accounts as rows and records, and the account changes that several commands share."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from engine.access.rules import Permission, Role
from engine.errors import ConfigError, UnknownName
from engine.store.access.authorization import granted
from engine.store.connection import Connection, Row, WriteConnection
from engine.store.timestamps import now

_SAME = ("name", "role", "role_from", "email", "issuer", "created_at", "created_by", "disabled_at")
_GRANTS = "runs_commands"
PERSON = f"SELECT id, {', '.join(_SAME)}, password IS NOT NULL AS has_password, {_GRANTS} FROM people"
ACCOUNT = (*_SAME, "password", "subject", _GRANTS)
Account = Mapping[str, Any]
"""A row of a person, with the columns of `ACCOUNT`."""


@dataclass(frozen=True)
class Person:
    """A person with an account."""

    id: int
    name: str
    role: Role
    role_from: Literal["admin", "provider"]
    """Source of the role: an admin, or the provider, which updates it at each sign-in."""
    email: str
    issuer: str | None
    """The person's OpenID provider, or None."""
    created_at: str
    created_by: str
    disabled_at: str | None
    """Time when the account was disabled, or None."""
    has_password: bool
    granted: tuple[Permission, ...] = ()
    """Permissions that an admin has granted to this person."""

    @property
    def active(self) -> bool:
        return self.disabled_at is None


NAME_AS_KEPT = (
    "(SELECT coalesce((SELECT name FROM people WHERE people.name = asked.name), asked.name) "
    "FROM (SELECT ? AS name) AS asked)"
)
"""A person's name that may be given in any case, as its account has it; any name without an account as it is."""


class PeopleReader:
    """Queries about people."""

    def __init__(self, db: Connection) -> None:
        self.db = db

    def everyone(self) -> list[Person]:
        """Return everyone with an account by name, including disabled accounts."""
        return [as_person(row) for row in self.db.rows(f"{PERSON} ORDER BY sort_key(name)")]

    def accounts(self) -> list[Account]:
        """Return all accounts with their password hashes, for a store that replaces this one."""
        return [dict(row) for row in self.db.rows(f"SELECT {', '.join(ACCOUNT)} FROM people ORDER BY id")]

    def one(self, name: str, *, field: str = "name") -> Person:
        """Return one person, ignoring case; raises UnknownName of that field."""
        row = self.db.row(f"{PERSON} WHERE name = ?", [name])
        if row is None:
            raise UnknownName("person", name, [each.name for each in self.everyone()], field)
        return as_person(row)


NEW_PASSWORD = "a new password"
"""Ends sign-ins, in place of a person: the sign-in page says so."""


class AccountChanges:
    """Changes to one account within another command's change."""

    def __init__(self, db: WriteConnection) -> None:
        self.db = db
        self._people = PeopleReader(db)

    def change(self, name: str, sql: str, *values: Any) -> Person:
        """Change a person, within a change that must leave at least one admin."""
        person = self._people.one(name)
        self.db.connection.execute(sql, [*values, person.id])
        if not self.db.row("SELECT 1 FROM people WHERE role = 'admin' AND disabled_at IS NULL"):
            raise ConfigError.of(
                "name", f"{person.name} is the only admin of this lab; make another person an admin first."
            )
        return self._people.one(person.name)

    def end_sign_ins(self, person_id: int, by: str, but_key: str = "") -> int:
        """End all sessions of a person except `but_key`; return their number."""
        sql = "UPDATE sign_ins SET ended_at = ?, ended_by = ? WHERE person_id = ? AND ended_at IS NULL AND key <> ?"
        return self.db.connection.execute(sql, [now(), by, person_id, but_key]).rowcount


def as_person(row: Row) -> Person:
    """Return a row of `PERSON` as a person."""
    return replace(Person(*row), has_password=bool(row["has_password"]), granted=granted(row))
