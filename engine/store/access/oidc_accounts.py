"""Accounts of people authenticated by an OpenID provider: found, linked to an account created by an admin, or
created.
"""

from itertools import count

from engine.access.confusables import looks
from engine.access.rules import LOST, Role
from engine.errors import SignInRefused
from engine.store.access.accounts import PERSON, AccountChanges, Person, as_person
from engine.store.access.accounts_mark import mark
from engine.store.access.authorization import Authorization, command
from engine.store.access.people import NAME_LENGTH, RESERVED
from engine.store.access.standing import AccessReader
from engine.store.connection import WriteConnection
from engine.store.timestamps import now

_NAMES = (
    "SELECT owner FROM runs UNION SELECT owner FROM sweeps UNION SELECT owner FROM duels UNION SELECT owner FROM "
    "views UNION SELECT name FROM people"
)
_AS = "program"
"""Actor name of a provider in the audit log."""


class OidcCommands:
    """Commands of an OpenID sign-in; app/auth/oidc_routes.py has verified the provider's token."""

    def __init__(self, db: WriteConnection) -> None:
        self.db = db
        self._access = AccessReader(db)
        self._accounts = AccountChanges(db)
        self._authorization = Authorization(db)

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
        rows = (
            self.db.rows("SELECT id, name, issuer, subject FROM people WHERE email = ? COLLATE NOCASE", [email])
            if email
            else []
        )
        if not rows:
            return None
        if len(rows) > 1:
            raise SignInRefused(
                f"{len(rows)} accounts of this lab have the e-mail address {email}, so yours can't be identified. "
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
        sql = (
            "INSERT INTO people (name, role, role_from, email, issuer, subject, created_at, created_by) VALUES (?, "
            "?, 'provider', ?, ?, ?, ?, ?)"
        )
        made = self.db.connection.execute(sql, [kept, role, email, issuer, subject, now(), issuer]).lastrowid
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
        return (
            self.db.row("SELECT 1 FROM people WHERE role = 'admin' AND disabled_at IS NULL AND id <> ?", [beside])
            is not None
        )

    def _with_id(self, person_id: int | None) -> Person:
        return as_person(self.db.rows(f"{PERSON} WHERE id = ?", [person_id])[0])
