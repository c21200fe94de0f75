"""People with accounts: who they are, what they may do, and the commands that change that. Somebody who can manage
people always stays.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from engine.access.confusables import is_shown, looks, plain
from engine.access.passwords import hashed
from engine.access.rules import ROLES, Role
from engine.errors import ConfigError, Problem, UnknownName
from engine.store.access.accounts import PERSON, AccountChanges, Person, as_person
from engine.store.access.accounts_mark import mark
from engine.store.access.authorization import Authorization, command
from engine.store.access.standing import AccessReader
from engine.store.connection import Connection, WriteConnection
from engine.store.timestamps import now

NAME_LENGTH, EMAIL_LENGTH = 40, 200
RESERVED = frozenset({"runner", "worker", "fsck", "console", "someone", "nobody", "parallab"})
"""Names that events give to parts of Parallab, or to no one."""
_RESERVED_LOOKS = frozenset(map(looks, RESERVED))
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


class PeopleReader:
    """The questions about people."""

    def __init__(self, db: Connection) -> None:
        self.db = db

    def everyone(self) -> list[Person]:
        """Return everyone who has an account, those who are shut out among them, by name."""
        return [as_person(row) for row in self.db.rows(f"{PERSON} ORDER BY name")]

    def accounts(self) -> list[Account]:
        """Return all accounts whole, the hashes of passwords among them, for a store that takes the place
        of this one.
        """
        return [dict(row) for row in self.db.rows(f"SELECT {', '.join(ACCOUNT)} FROM people ORDER BY id")]

    def one(self, name: str) -> Person:
        """Return one person, whatever the case of the letters; raises UnknownName."""
        row = self.db.row(f"{PERSON} WHERE name = ?", [name])
        if row is None:
            raise UnknownName("person", name, [each.name for each in self.everyone()], "name")
        return as_person(row)


class PeopleCommands:
    """The commands about people; each raises UnknownName for somebody who is not there."""

    def __init__(self, db: WriteConnection) -> None:
        self.db = db
        self._access = AccessReader(db)
        self._accounts = AccountChanges(db)
        self._authorization = Authorization(db)

    @command("add person")
    def add(self, name: str, role: Role, *, by: str, password: str | None = None, email: str = "") -> str:
        """Give somebody an account and return the name as it is kept; the first one has to be an admin, and rules hold
        from then on.

        Raises ConfigError for a name that is taken, reserved or too long, a role that is none, and a password that does
        not do.
        """
        name, email = checked_name(name), _checked_email(email)
        _check_role(role)
        if not self._access.has_people() and role != "admin":
            raise ConfigError(
                [
                    Problem(
                        "role", f"The first person of a lab has to be an admin, or nobody could add others; got {role}."
                    )
                ]
            )
        if alike := next(
            (str(row["name"]) for row in self.db.rows("SELECT name FROM people") if looks(row["name"]) == looks(name)),
            None,
        ):
            raise ConfigError([Problem("name", _taken(name, alike))])
        stored = None if password is None else hashed(password, name)
        sql = "INSERT INTO people (name, role, password, email, created_at, created_by) VALUES (?, ?, ?, ?, ?, ?)"
        self.db.connection.execute(sql, [name, role, stored, email, now(), by])
        mark(self.db.home)  # before the commit: a crash closes the lab rather than leave it open
        return name

    @command("set role", "person")
    def set_role(self, name: str, role: Role, *, by: str) -> Person:
        """Give somebody another role, at once and wherever they are signed in. Raises ConfigError where no admin would
        be left.
        """
        _check_role(role)
        return self._accounts.change(name, "UPDATE people SET role = ?, role_from = 'admin' WHERE id = ?", role)

    @command("shut out", "person")
    def shut_out(self, name: str, *, by: str) -> Person:
        """Let somebody in no more and end where they are signed in and their tokens; their runs stay. Raises
        ConfigError where no admin would be left.
        """
        person = self._accounts.change(
            name, "UPDATE people SET disabled_at = coalesce(disabled_at, ?) WHERE id = ?", now()
        )
        self._accounts.end_sign_ins(person.id, by)
        self.db.connection.execute(
            "UPDATE tokens SET revoked_at = coalesce(revoked_at, ?) WHERE person_id = ?", [now(), person.id]
        )
        return person

    @command("let in", "person")
    def let_in(self, name: str, *, by: str) -> Person:
        """Let somebody in again who was shut out; tokens taken back stay so."""
        return self._accounts.change(name, "UPDATE people SET disabled_at = NULL WHERE id = ?")

    @command("set password", "person")
    def set_password(self, name: str, password: str, *, by: str) -> Person:
        """Give somebody another password and end where they are signed in; raises ConfigError for one that
        does not do.
        """
        person = self._accounts.change(name, "UPDATE people SET password = ? WHERE id = ?", hashed(password, name))
        self._accounts.end_sign_ins(person.id, by)
        return person

    @command("end sign-ins", "person")
    def end_sign_ins(self, name: str, *, by: str, but_key: str = "") -> int:
        """Sign somebody out of every browser, but for the sign-in `but_key` where one is named; return of how many."""
        return self._accounts.end_sign_ins(self._accounts.person(name).id, by, but_key)

    def note_restored(self, backup: str, *, by: str, accounts: Sequence[Account] = ()) -> None:
        """End all sign-ins and take back all tokens of a store that was put in the place of a newer one, and keep who
        did that.

        `accounts` are those of the newer one, which go on to hold: who was shut out since stays out, and no older
        password or role comes back.
        """
        changed = ", ".join(f"{name} = excluded.{name}" for name in ACCOUNT if name != "name")
        kept = f"INSERT INTO people ({', '.join(ACCOUNT)}) VALUES ({', '.join('?' * len(ACCOUNT))})"
        with self.db.change() as connection:
            for account in accounts:
                connection.execute(
                    f"{kept} ON CONFLICT (name) DO UPDATE SET {changed} ON CONFLICT DO NOTHING",
                    [account[name] for name in ACCOUNT],
                )
                mark(self.db.home)
            connection.execute("UPDATE sign_ins SET ended_at = ?, ended_by = ? WHERE ended_at IS NULL", [now(), by])
            connection.execute("UPDATE tokens SET revoked_at = ? WHERE revoked_at IS NULL", [now()])
            self._authorization.audit("restore", by, "", "", [], f"from {backup}; everyone has to sign in again")


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
