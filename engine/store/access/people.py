"""People with accounts, their roles, and the commands that change them. There is always at least one active admin."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

from engine.access.confusables import is_shown, looks, plain
from engine.access.passwords import hashed
from engine.access.rules import LOST, PERMISSIONS, ROLES, Permission, Role
from engine.errors import ConfigError, Problem, SignInRefused, UnknownName, enumeration
from engine.store.access.accounts import (
    ACCOUNT,
    NEW_PASSWORD,
    PERSON,
    Account,
    AccountChanges,
    PeopleReader,
    Person,
    as_person,
)
from engine.store.access.authorization import AccessReader, Authorization, command, mark
from engine.store.connection import WriteConnection
from engine.store.timestamps import now

NAME_LENGTH, EMAIL_LENGTH = 40, 200
RESERVED = frozenset({"runner", "worker", "fsck", "console", "someone", "nobody", "parallab"})
"""Names that events use for parts of Parallab, or for nobody."""
_RESERVED_LOOKS = frozenset(map(looks, RESERVED))
_NAMES = (
    "SELECT owner FROM runs UNION SELECT owner FROM sweeps UNION SELECT owner FROM duels UNION SELECT owner FROM "
    "views UNION SELECT name FROM people"
)
_AS = "program"
"""Actor name of a provider in the audit log."""


@dataclass(frozen=True)
class NewPerson:
    """A line of a list of accounts."""

    line: int
    name: str
    email: str
    password_hash: str


class PeopleCommands:
    """Commands about people; each raises UnknownName for an unknown person."""

    def __init__(self, db: WriteConnection) -> None:
        self.db = db
        self._people = PeopleReader(db)
        self._access = AccessReader(db)
        self._accounts = AccountChanges(db)
        self._authorization = Authorization(db)

    @command("add person")
    def add(self, name: str, role: Role, *, by: str, password: str | None = None, email: str = "") -> str:
        """Create an account and return its stored name; the first one must be an admin, and rules apply from then on.

        Raises ConfigError for a name that is taken, reserved or too long, an invalid role, and an invalid password.
        """
        name, email = checked_name(name), _checked_email(email)
        self.check_new(name, role)
        return self._insert(name, role, by, email, None if password is None else hashed(password, name))

    @command("add person")
    def add_all(self, people: Sequence[NewPerson], role: Role, *, by: str) -> list[str]:
        """Create several accounts, all or none, and return their stored names; otherwise as `add`."""
        self._check_first(role)
        problems: list[Problem] = []
        names: list[str] = []
        for each in people:
            try:
                name, email = checked_name(each.name), _checked_email(each.email)
                self._check_name(name)
            except ConfigError as error:
                cure = " A name is written without a comma, such as Ada Lovelace." if each.email else ""
                problems += [Problem(one.field, f"Line {each.line}: {one.sentence}{cure}") for one in error.problems]
            else:
                names.append(self._insert(name, role, by, email, each.password_hash))
        if problems:
            raise ConfigError(problems)
        return names

    def check_new(self, name: str, role: Role) -> None:
        """Raise ConfigError for an invalid role, the first account of a lab that is no admin's, and a taken name."""
        self._check_first(role)
        self._check_name(checked_name(name))

    def _check_first(self, role: Role) -> None:
        _check_role(role)
        if not self._access.has_people() and role != "admin":
            raise ConfigError.of(
                "role",
                f"The first account must be an admin, because only admins can add people; got {role}. Create it with: "
                "python -m engine users add NAME --role admin",
            )

    def _check_name(self, name: str) -> None:
        names = self.db.column("SELECT name FROM people")
        if alike := next((each for each in names if looks(each) == looks(name)), None):
            raise ConfigError.of("name", _taken(name, alike))

    def _insert(self, name: str, role: Role, by: str, email: str, password_hash: str | None) -> str:
        account = {"name": name, "role": role, "password": password_hash, "email": email}
        self.db.insert("people", {**account, "created_at": now(), "created_by": by})
        mark(self.db.home)  # before the commit: a crash closes the lab rather than leave it open
        return name

    @command("set role", "person")
    def set_role(self, name: str, role: Role, *, by: str) -> Person:
        """Change a person's role, effective immediately for all sessions. Raises ConfigError if no admin would
        remain.
        """
        _check_role(role)
        return self._accounts.change(name, "UPDATE people SET role = ?, role_from = 'admin' WHERE id = ?", role)

    @command("set email", "person")
    def set_email(self, name: str, email: str, *, by: str) -> Person:
        """Change a person's e-mail address, or remove it if empty; raises ConfigError for an invalid one."""
        return self._accounts.change(name, "UPDATE people SET email = ? WHERE id = ?", _checked_email(email))

    @command("allow", "person")
    def allow(self, name: str, permission: Permission, *, by: str) -> Person:
        """Grant a person a permission, effective immediately. Raises UnknownName, and ConfigError for a viewer."""
        _check_permission(permission)
        if (person := self._people.one(name)).role == "viewer":
            sentence = f"{person.name} is a viewer, who launches nothing. Make {person.name} a member first."
            raise ConfigError.of("name", sentence)
        return self._accounts.change(name, "UPDATE people SET runs_commands = 1 WHERE id = ?")

    @command("forbid", "person")
    def forbid(self, name: str, permission: Permission, *, by: str) -> Person:
        """Revoke a person's permission, effective immediately; runs that are queued or running stay."""
        _check_permission(permission)
        return self._accounts.change(name, "UPDATE people SET runs_commands = 0 WHERE id = ?")

    @command("disable", "person")
    def disable(self, name: str, *, by: str) -> Person:
        """Disable an account and end its sessions and tokens; its runs stay. Raises ConfigError if no admin would
        remain.
        """
        person = self._accounts.change(
            name, "UPDATE people SET disabled_at = coalesce(disabled_at, ?) WHERE id = ?", now()
        )
        self._accounts.end_sign_ins(person.id, by)
        self.db.connection.execute(
            "UPDATE tokens SET revoked_at = coalesce(revoked_at, ?) WHERE person_id = ?", [now(), person.id]
        )
        return person

    @command("enable", "person")
    def enable(self, name: str, *, by: str) -> Person:
        """Enable a disabled account; revoked tokens stay revoked."""
        return self._accounts.change(name, "UPDATE people SET disabled_at = NULL WHERE id = ?")

    @command("set password", "person")
    def set_password(self, name: str, password: str, *, by: str) -> Person:
        """Change a person's password and end their sessions; raises ConfigError for an invalid password."""
        person = self._accounts.change(name, "UPDATE people SET password = ? WHERE id = ?", hashed(password, name))
        self._accounts.end_sign_ins(person.id, NEW_PASSWORD)
        return person

    @command("end sign-ins", "person")
    def end_sign_ins(self, name: str, *, by: str, but_key: str = "") -> int:
        """End all sessions of a person except `but_key`, if given; return their number."""
        return self._accounts.end_sign_ins(self._people.one(name).id, by, but_key)

    def note_restored(self, backup: str, *, by: str, accounts: Sequence[Account] = ()) -> None:
        """End all sessions and revoke all tokens of a restored store, and record who restored it.

        `accounts` are those of the replaced store, which stay valid: accounts disabled since the backup stay disabled,
        and no older password or role returns.
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
            self._authorization.audit(
                "restore", by, self._authorization.role_of(by), "", [], f"from {backup}; everyone has to sign in again"
            )

    # Accounts of people authenticated by an OpenID provider: found, linked to an account created by an admin, or
    # created. app/auth/oidc_routes.py has verified the provider's token.

    def known_by_provider(self, issuer: str, subject: str, name: str, email: str, role: Role | None) -> Person:
        """Return the person that a provider has authenticated; a new identity gets an account.

        `email` must be verified by the provider: it links an account that an admin created with that address. With a
        `role` (from the provider's groups) the person gets that role, unless an admin set theirs. Raises SignInRefused
        for a person without a role, who is then signed out everywhere, a disabled account, an address of another
        person, and in a lab without an admin, unless this person is one.
        """
        refusal = ""
        with self.db.change():
            if self._access.standing("").lost:
                raise SignInRefused(LOST)
            if role != "admin" and not self._has_admin():
                raise SignInRefused(
                    "This lab has no admin yet. Its operator adds one with: python -m engine users add NAME --role "
                    "admin --email ADDRESS"
                )
            found = self.db.row("SELECT id FROM people WHERE issuer = ? AND subject = ?", [issuer, subject])
            person_id = found["id"] if found else self._linked(issuer, subject, email)
            if person_id is None:
                return self._welcome(issuer, subject, name, email, role)
            person = self._with_id(person_id)
            if not person.active:
                raise SignInRefused(f"The account {person.name} is disabled. An admin can enable it.")
            if role != person.role and person.role_from == "provider" and self._has_admin(beside=person.id):
                refusal = self._follow(person, issuer, role)
            if not refusal:
                return self._with_id(person.id)
        raise SignInRefused(refusal)

    @command("unlink", "person")
    def unlink(self, name: str, *, by: str) -> Person:
        """Remove the provider's identity from an account and end its sessions."""
        person = self._accounts.change(name, "UPDATE people SET issuer = NULL, subject = NULL WHERE id = ?")
        self._accounts.end_sign_ins(person.id, by)
        return person

    def _follow(self, person: Person, issuer: str, role: Role | None) -> str:
        """Apply the provider's role within a change; without a role, end the person's sessions and return the
        refusal.
        """
        if role is None:
            self._accounts.end_sign_ins(person.id, issuer)
            return (
                f"{person.name} no longer has access to this lab: none of their groups at the provider has a role. "
                "Ask an admin for a role."
            )
        self.db.connection.execute("UPDATE people SET role = ? WHERE id = ?", [role, person.id])
        self._authorization.audit("set role", issuer, _AS, "person", [person.name], f"role={role}")
        return ""

    def _linked(self, issuer: str, subject: str, email: str) -> int | None:
        """Link the account that an admin created with a verified address, within a change; None if there is none."""
        sql = "SELECT id, name, issuer, subject FROM people WHERE email = ? COLLATE NOCASE"
        if not email or not (rows := self.db.rows(sql, [email])):
            return None
        if len(rows) > 1:
            raise SignInRefused(
                f"Several accounts of this lab have the e-mail address {email}, so yours can't be identified. "
                "Ask an admin."
            )
        if rows[0]["subject"] is not None:
            raise SignInRefused(
                f"The account {rows[0]['name']} has the e-mail address {email}, but is linked to another identity "
                f"at {rows[0]['issuer']}. An admin can unlink it: python -m engine users unlink NAME"
            )
        self.db.connection.execute(
            "UPDATE people SET issuer = ?, subject = ? WHERE id = ?", [issuer, subject, rows[0]["id"]]
        )
        self._authorization.audit(
            "sign in", issuer, _AS, "person", [rows[0]["name"]], "linked by verified e-mail address"
        )
        return int(rows[0]["id"])

    def _welcome(self, issuer: str, subject: str, name: str, email: str, role: Role | None) -> Person:
        """Create an account for a new identity, within a change."""
        if role is None:
            raise SignInRefused(
                f"{name or email or 'You'} has no access to this lab yet: no group from the provider has a role, "
                "and no account matches a verified e-mail address. Ask an admin to add you."
            )
        kept = self._free_name(name, email)
        account = {"name": kept, "role": role, "role_from": "provider", "email": email}
        source = {"issuer": issuer, "subject": subject, "created_at": now(), "created_by": issuer}
        made = self.db.insert("people", account | source)
        self._authorization.audit("add person", issuer, _AS, "person", [kept], f"role={role}")
        mark(self.db.home)
        return self._with_id(made)

    def _free_name(self, name: str, email: str) -> str:
        """Return a name for a new account based on the provider's, but never one that owns objects here, because people
        choose their names at a provider.
        """
        base = name[:NAME_LENGTH].strip() or email.partition("@")[0][:NAME_LENGTH].strip() or "Somebody"
        taken = {looks(str(row[0])) for row in self.db.rows(_NAMES)} | {looks(each) for each in RESERVED}
        numbered = (base if number == 1 else f"{base[: NAME_LENGTH - 6].strip()} {number}" for number in count(1))
        return next(each for each in numbered if looks(each) not in taken)

    def _has_admin(self, beside: int = 0) -> bool:
        return self.db.exists("SELECT 1 FROM people WHERE role = 'admin' AND disabled_at IS NULL AND id <> ?", [beside])

    def _with_id(self, person_id: int) -> Person:
        return as_person(self.db.rows(f"{PERSON} WHERE id = ?", [person_id])[0])


def _check_permission(permission: str) -> None:
    if permission not in PERMISSIONS:
        raise UnknownName("permission", permission, PERMISSIONS, "permission")


def checked_name(text: object) -> str:
    """Return the stored form of a name, without surrounding spaces; raises ConfigError for an invalid one."""
    name = plain(text) if isinstance(text, str) else ""
    if not name:
        raise ConfigError.of("name", "A name needs at least one letter. Enter your name.")
    if len(name) > NAME_LENGTH:
        raise ConfigError.of("name", f"A name must have at most {NAME_LENGTH} characters; got {len(name)}.")
    if not is_shown(name):
        raise ConfigError.of(
            "name",
            "A name must contain only printable characters; this one has a control character or a special space.",
        )
    if looks(name) in _RESERVED_LOOKS:
        raise ConfigError.of("name", f"The name '{name}' is reserved by Parallab. Choose another one.")
    return name


def _taken(name: str, alike: str) -> str:
    if name.casefold() == alike.casefold():
        return f"The name '{alike}' is already taken. Choose another one; names are never reused."
    return f"The name '{name}' looks like '{alike}', which is already taken. Choose a clearly different name."


def _check_role(role: str) -> None:
    if role not in ROLES:
        raise ConfigError.of("role", f"role must be {enumeration(ROLES, 'or')}; got '{role}'.")


def _checked_email(text: str) -> str:
    text = text.strip()
    if text and (len(text) > EMAIL_LENGTH or text.count("@") != 1 or not text.isprintable() or " " in text):
        raise ConfigError.of(
            "email",
            f"An e-mail address must look like ada@lab.org and have at most {EMAIL_LENGTH} characters; "
            f"got '{text[:60]}'.",
        )
    return text
