"""People with accounts: who they are, what they may do, and the commands that change that. Somebody who can manage
people always stays.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from engine.access.confusables import is_shown, looks, plain
from engine.access.passwords import hashed
from engine.access.rules import ROLES, Role
from engine.errors import ConfigError, Problem, UnknownName
from engine.store.accounts import mark
from engine.store.clock import now
from engine.store.connection import Connected, Row
from engine.store.guarding import Guarded, command

NAME_LENGTH, EMAIL_LENGTH = 40, 200
RESERVED = frozenset({"runner", "worker", "fsck", "console", "someone", "nobody", "parallab"})
"""Names that events give to parts of Parallab, or to no one."""
_RESERVED_LOOKS = frozenset(map(looks, RESERVED))
PERSON = (
    "SELECT id, name, role, role_from, email, issuer, created_at, created_by, disabled_at, password IS NOT NULL AS "
    "has_password FROM people"
)
ACCOUNT = (
    "name",
    "role",
    "role_from",
    "password",
    "email",
    "issuer",
    "subject",
    "created_at",
    "created_by",
    "disabled_at",
)
Account = Mapping[str, Any]
"""The row of a person, by the columns of `ACCOUNT`."""


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


class People(Connected):
    """The questions about people."""

    def people(self) -> list[Person]:
        """Return everyone who has an account, those who are shut out among them, by name."""
        return [as_person(row) for row in self.rows(f"{PERSON} ORDER BY name")]

    def accounts(self) -> list[Account]:
        """Return all accounts whole, the hashes of passwords among them, for a store that takes the place
        of this one.
        """
        return [dict(row) for row in self.rows(f"SELECT {', '.join(ACCOUNT)} FROM people ORDER BY id")]

    def person(self, name: str) -> Person:
        """Return one person, whatever the case of the letters; raises UnknownName."""
        row = self.row(f"{PERSON} WHERE name = ?", [name])
        if row is None:
            raise UnknownName("person", name, [each.name for each in self.people()], "name")
        return as_person(row)


class PeopleCommands(Guarded):
    """The commands about people; each raises UnknownName for somebody who is not there."""

    @command("add person")
    def add_person(self, name: str, role: Role, *, by: str, password: str | None = None, email: str = "") -> str:
        """Give somebody an account and return the name as it is kept; the first one has to be an admin, and rules hold
        from then on.

        Raises ConfigError for a name that is taken, reserved or too long, a role that is none, and a password that does
        not do.
        """
        name, email = checked_name(name), _checked_email(email)
        _check_role(role)
        if not self.has_people() and role != "admin":
            raise ConfigError(
                [
                    Problem(
                        "role", f"The first person of a lab has to be an admin, or nobody could add others; got {role}."
                    )
                ]
            )
        if alike := next(
            (str(row["name"]) for row in self.rows("SELECT name FROM people") if looks(row["name"]) == looks(name)),
            None,
        ):
            raise ConfigError([Problem("name", _taken(name, alike))])
        stored = None if password is None else hashed(password, name)
        sql = "INSERT INTO people (name, role, password, email, created_at, created_by) VALUES (?, ?, ?, ?, ?, ?)"
        self.connection.execute(sql, [name, role, stored, email, now(), by])
        mark(self.home)  # before the commit: a crash closes the lab rather than leave it open
        return name

    @command("set role", "person")
    def set_role(self, name: str, role: Role, *, by: str) -> Person:
        """Give somebody another role, at once and wherever they are signed in. Raises ConfigError where no admin would
        be left.
        """
        _check_role(role)
        return self._changed(name, "UPDATE people SET role = ?, role_from = 'admin' WHERE id = ?", role)

    @command("shut out", "person")
    def shut_out(self, name: str, *, by: str) -> Person:
        """Let somebody in no more and end where they are signed in and their tokens; their runs stay. Raises
        ConfigError where no admin would be left.
        """
        person = self._changed(name, "UPDATE people SET disabled_at = coalesce(disabled_at, ?) WHERE id = ?", now())
        self._end_all(person.id, by)
        self.connection.execute(
            "UPDATE tokens SET revoked_at = coalesce(revoked_at, ?) WHERE person_id = ?", [now(), person.id]
        )
        return person

    @command("let in", "person")
    def let_in(self, name: str, *, by: str) -> Person:
        """Let somebody in again who was shut out; tokens taken back stay so."""
        return self._changed(name, "UPDATE people SET disabled_at = NULL WHERE id = ?")

    @command("set password", "person")
    def set_password(self, name: str, password: str, *, by: str) -> Person:
        """Give somebody another password and end where they are signed in; raises ConfigError for one that
        does not do.
        """
        person = self._changed(name, "UPDATE people SET password = ? WHERE id = ?", hashed(password, name))
        self._end_all(person.id, by)
        return person

    @command("end sign-ins", "person")
    def end_sign_ins(self, name: str, *, by: str, but_key: str = "") -> int:
        """Sign somebody out of every browser, but for the sign-in `but_key` where one is named; return of how many."""
        return self._end_all(self._person(name).id, by, but_key)

    def note_restored(self, backup: str, *, by: str, accounts: Sequence[Account] = ()) -> None:
        """End all sign-ins and take back all tokens of a store that was put in the place of a newer one, and keep who
        did that.

        `accounts` are those of the newer one, which go on to hold: who was shut out since stays out, and no older
        password or role comes back.
        """
        changed = ", ".join(f"{name} = excluded.{name}" for name in ACCOUNT if name != "name")
        kept = f"INSERT INTO people ({', '.join(ACCOUNT)}) VALUES ({', '.join('?' * len(ACCOUNT))})"
        with self.change() as connection:
            for account in accounts:
                connection.execute(
                    f"{kept} ON CONFLICT (name) DO UPDATE SET {changed} ON CONFLICT DO NOTHING",
                    [account[name] for name in ACCOUNT],
                )
                mark(self.home)
            connection.execute("UPDATE sign_ins SET ended_at = ?, ended_by = ? WHERE ended_at IS NULL", [now(), by])
            connection.execute("UPDATE tokens SET revoked_at = ? WHERE revoked_at IS NULL", [now()])
            self._audit("restore", by, "", "", [], f"from {backup}; everyone has to sign in again")

    def _end_all(self, person_id: int, by: str, but_key: str = "") -> int:
        sql = "UPDATE sign_ins SET ended_at = ?, ended_by = ? WHERE person_id = ? AND ended_at IS NULL AND key <> ?"
        return self.connection.execute(sql, [now(), by, person_id, but_key]).rowcount

    def _changed(self, name: str, sql: str, *values: Any) -> Person:
        """Change a person, inside a change that an admin less may not end."""
        person = self._person(name)
        self.connection.execute(sql, [*values, person.id])
        if not self.row("SELECT 1 FROM people WHERE role = 'admin' AND disabled_at IS NULL"):
            raise ConfigError(
                [Problem("name", f"{person.name} is the only admin of this lab; make somebody else one first.")]
            )
        return self._person(person.name)

    def _person(self, name: str) -> Person:
        row = self.row(f"{PERSON} WHERE name = ?", [name])
        if row is None:
            raise UnknownName(
                "person", name, [str(each["name"]) for each in self.rows("SELECT name FROM people")], "name"
            )
        return as_person(row)


def checked_name(text: object) -> str:
    """Return a name as it is kept, without blanks round it; raises ConfigError with a sentence for one that does not
    do.
    """
    name = plain(text) if isinstance(text, str) else ""
    if not name:
        raise ConfigError([Problem("name", "A name has at least one letter; please type yours.")])
    if len(name) > NAME_LENGTH:
        raise ConfigError([Problem("name", f"A name has at most {NAME_LENGTH} letters, this one has {len(name)}.")])
    if not is_shown(name):
        raise ConfigError(
            [
                Problem(
                    "name",
                    (
                        "A name is made of letters that can be shown; this one has a control character or a blank "
                        "that is none."
                    ),
                )
            ]
        )
    if looks(name) in _RESERVED_LOOKS:
        raise ConfigError([Problem("name", f"The name '{name}' is kept for a part of Parallab. Choose another one.")])
    return name


def _taken(name: str, alike: str) -> str:
    if name.casefold() == alike.casefold():
        return f"Somebody has the name '{alike}' already. Choose another one; a name is never given twice."
    return (
        f"The name '{name}' looks like '{alike}', and somebody has the name '{alike}'. Choose one that nobody "
        "takes for it."
    )


def _check_role(role: str) -> None:
    if role not in ROLES:
        raise ConfigError([Problem("role", f"A role is {', '.join(ROLES[:-1])} or {ROLES[-1]}, got '{role}'.")])


def _checked_email(text: str) -> str:
    text = text.strip()
    if text and (len(text) > EMAIL_LENGTH or text.count("@") != 1 or not text.isprintable() or " " in text):
        raise ConfigError(
            [
                Problem(
                    "email",
                    (
                        f"An e-mail address looks like ada@lab.org and has at most {EMAIL_LENGTH} characters, got "
                        f"'{text[:60]}'."
                    ),
                )
            ]
        )
    return text


def as_person(row: Row) -> Person:
    """Return a row of `PERSON` as a person."""
    values = {name: row[name] for name in row.keys() if name != "has_password"}  # noqa: SIM118 -- a Row is no mapping
    return Person(**values, has_password=bool(row["has_password"]))
