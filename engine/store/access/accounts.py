"""Accounts as rows and records, and the changes to one that several commands make."""

from dataclasses import dataclass
from typing import Any, Literal

from engine.access.rules import Role
from engine.errors import ConfigError, Problem, UnknownName
from engine.store.connection import Row, WriteConnection
from engine.store.timestamps import now

PERSON = (
    "SELECT id, name, role, role_from, email, issuer, created_at, created_by, disabled_at, password IS NOT NULL AS "
    "has_password FROM people"
)


@dataclass(frozen=True)
class Person:
    """Somebody with an account."""

    id: int
    name: str
    role: Role
    role_from: Literal["admin", "provider"]
    """Who gave the role: an admin, or the provider, which gives it anew at each sign-in."""
    email: str
    issuer: str | None
    """The OpenID provider that knows the person, None where none does."""
    created_at: str
    created_by: str
    disabled_at: str | None
    """Since when they are shut out."""
    has_password: bool

    @property
    def active(self) -> bool:
        return self.disabled_at is None


class AccountChanges:
    """Changes to one account inside a change of somebody else's command."""

    def __init__(self, db: WriteConnection) -> None:
        self.db = db

    def change(self, name: str, sql: str, *values: Any) -> Person:
        """Change a person, inside a change that an admin less may not end."""
        person = self.person(name)
        self.db.connection.execute(sql, [*values, person.id])
        if not self.db.row("SELECT 1 FROM people WHERE role = 'admin' AND disabled_at IS NULL"):
            raise ConfigError(
                [Problem("name", f"{person.name} is the only admin of this lab; make somebody else one first.")]
            )
        return self.person(person.name)

    def end_sign_ins(self, person_id: int, by: str, but_key: str = "") -> int:
        """Sign somebody out everywhere, but for the sign-in `but_key`; return of how many browsers."""
        sql = "UPDATE sign_ins SET ended_at = ?, ended_by = ? WHERE person_id = ? AND ended_at IS NULL AND key <> ?"
        return self.db.connection.execute(sql, [now(), by, person_id, but_key]).rowcount

    def person(self, name: str) -> Person:
        """Return one person; raises UnknownName."""
        row = self.db.row(f"{PERSON} WHERE name = ?", [name])
        if row is None:
            raise UnknownName(
                "person", name, [str(each["name"]) for each in self.db.rows("SELECT name FROM people")], "name"
            )
        return as_person(row)


def as_person(row: Row) -> Person:
    """Return a row of `PERSON` as a person."""
    values = {name: row[name] for name in row.keys() if name != "has_password"}  # noqa: SIM118 -- a Row is no mapping
    return Person(**values, has_password=bool(row["has_password"]))
