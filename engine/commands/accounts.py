"""Accounts from a list of names with printable passwords, and the end of an account together with its runs."""

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from threading import BoundedSemaphore
from typing import Any

from engine.access import passwords
from engine.access.confusables import plain
from engine.access.passwords import Patience
from engine.access.providers import Rules
from engine.access.rules import ROLES, Role
from engine.errors import ConfigError, SignInRefused
from engine.home import Home
from engine.store import Person, Reader, Store
from engine.store.access.people import EMAIL_LENGTH, NewPerson
from engine.store.access.sign_ins import NOBODY

MOST = 200
"""Number of accounts that one list may create."""
_SHEET = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Accounts</title><style>
:root {{ color-scheme: light; }}
body {{ margin: 0; padding: 1rem; font: 15px/1.5 system-ui, sans-serif; color: #0d1720; background: #fff; }}
main {{ display: grid; grid-template-columns: repeat(auto-fill, minmax(min(20rem, 100%), 1fr)); gap: 0.75rem; }}
section {{ border: 1px dashed #7b8791; border-radius: 0.4rem; padding: 0.8rem 1rem; break-inside: avoid; }}
dl {{ display: grid; grid-template-columns: auto 1fr; gap: 0.15rem 0.9rem; margin: 0; overflow-wrap: anywhere; }}
dt {{ color: #55606a; }} dd {{ margin: 0; }} p {{ margin: 0.5rem 0 0; font-size: 0.85rem; color: #55606a; }}
h2 {{ margin: 0 0 0.4rem; font-size: 1rem; }}
.password {{ font-family: ui-monospace, monospace; font-weight: 600; white-space: nowrap; }}
@media (max-width: 22rem) {{ dl {{ grid-template-columns: 1fr; }} }}
button {{ font: inherit; color: inherit; background: none; margin: 0 0 1rem; padding: 0.35rem 0.9rem; }}
button {{ border: 1px solid #7b8791; border-radius: 0.4rem; cursor: pointer; }}
@media print {{ button {{ display: none; }} body {{ padding: 0; }} }}
</style></head><body>
<button type="button" onclick="print()">Print</button>
<main>{slips}</main>
</body></html>
"""


@dataclass(frozen=True)
class Slip:
    """A new account and its generated password, which is stored only as a hash."""

    name: str
    password: str


def from_list(text: str) -> tuple[list[NewPerson], list[Slip]]:
    """Return the accounts of a list, one `name` or `name, e-mail` per line, and their passwords.

    The hashes are made here, before any transaction. Raises ConfigError for an empty or too long list.
    """
    rows: list[tuple[int, str, str]] = []
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), 1):
        name, _, email = line.replace("\t", ",").replace(";", ",").partition(",")
        if line.strip():
            rows.append((number, name.strip(), email.strip()))
    if not 1 <= len(rows) <= MOST:
        raise ConfigError.of("names", f"A list must have 1 to {MOST} names, one per line; got {len(rows):,}.")
    slips = [Slip(name, passwords.made()) for _, name, _ in rows]
    people = [
        NewPerson(number, name, email, passwords.hashed(slip.password))
        for (number, name, email), slip in zip(rows, slips, strict=True)
    ]
    return people, slips


def sheet(slips: Sequence[Slip], address: str = "") -> str:
    """Return a page to print, with a slip per person: the product, name, password and the console's address."""
    where = f"<dt>Address</dt><dd>{escape(address)}</dd>" if address else ""
    return _SHEET.format(
        slips="".join(
            f"<section><h2>Parallab</h2><dl><dt>Name</dt><dd>{escape(slip.name)}</dd><dt>Password</dt>"
            f'<dd class="password">{escape(slip.password)}</dd>{where}</dl>'
            "<p>Change the password under your name at the top right, on the page Account.</p></section>"
            for slip in slips
        )
    )


def disable_account(store: Store, name: str, *, by: str, cancel_runs: bool = False) -> tuple[Person, int]:
    """Disable an account and, if asked for, cancel its queued and live runs, in one transaction; return the person and
    the number of cancelled runs.
    """
    with store.db.change():
        person = store.read.people.one(name)
        run_ids = store.read.quotas.active_runs(person.name) if cancel_runs else []
        for run_id in run_ids:
            store.runs.cancel(run_id, by=by)
        return store.people.disable(person.name, by=by), len(run_ids)


# ---- A person's identity and role from a provider's ID token -------------------------------------------------------
# Pure: the caller has verified the token.

LONGEST = 255
"""OpenID Connect Core 1.0, section 2: a subject has at most 255 characters."""


@dataclass(frozen=True)
class Vouched:
    """An identity asserted by a provider."""

    issuer: str
    subject: str
    name: str
    """Display name at the provider; may be empty, and is not verified."""
    email: str
    """Address verified by the provider, else empty."""
    role: Role | None
    """Highest role of the person's groups."""
    unverified: bool = False
    """Whether the provider sent an unverified address."""


def vouched(claims: Mapping[str, Any], rules: Rules) -> Vouched:
    """Return the identity and role in a set of claims; raises SignInRefused without an identity."""
    issuer, subject = _text(claims, "iss"), _text(claims, "sub")
    if not issuer or not subject or max(len(issuer), len(subject)) > LONGEST:
        raise SignInRefused(
            "The provider's answer has no identity (iss and sub). Ask an admin to check the provider's settings."
        )
    email = _email(claims)
    verified = claims.get("email_verified") is True or claims.get("email_verified") == "true"
    name = next(
        (found for key in ("name", "preferred_username", "nickname") if (found := _shown(_text(claims, key)))), ""
    )
    return Vouched(
        issuer, subject, name, email if verified else "", role_of(claims, rules), bool(email) and not verified
    )


def role_of(claims: Mapping[str, Any], rules: Rules) -> Role | None:
    """Return the highest role of a person's groups, or the default role."""
    groups = groups_of(claims, rules.groups_claim)
    return next((role for role in reversed(ROLES) if groups & set(rules.roles.get(role, ()))), rules.default_role)


def groups_of(claims: Mapping[str, Any], claim: str) -> frozenset[str]:
    """Return a person's groups: the claim of that name, or a nested one along the dots; a string is one group, the keys
    of an object are groups.
    """
    found: Any = claims.get(claim)
    if found is None:
        found = claims
        for part in claim.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
    if isinstance(found, str):
        return frozenset({found})
    return (
        frozenset(each for each in found if isinstance(each, str)) if isinstance(found, list | Mapping) else frozenset()
    )


def _email(claims: Mapping[str, Any]) -> str:
    """Return the address, empty if invalid."""
    email = _text(claims, "email").strip()
    is_valid = len(email) <= EMAIL_LENGTH and email.count("@") == 1 and email.isprintable() and " " not in email
    return email if is_valid else ""


def _shown(name: str) -> str:
    """Return a name normalised to printable characters, without surrounding blanks."""
    plain = unicodedata.normalize("NFKC", name)
    return " ".join("".join(letter if letter.isprintable() else " " for letter in plain).split())


def _text(claims: Mapping[str, Any], key: str) -> str:
    found = claims.get(key)
    return found if isinstance(found, str) else ""


# ------------------------------------------------------------------------------------------------------------------
# Sign-in with name and password, which fails with the same answer and the same work for any cause (only the right
# password of a disabled account gets another answer), or through a provider; and the change of a person's own
# password, which ends all their sessions.

AT_ONCE = 2
"""A check briefly needs 64 MiB and a core; the limit protects the machine from many at once."""
at_once = BoundedSemaphore(AT_ONCE)
patience = Patience()


def sign_in(home: Home, name: str, password: str, *, browser: str = "", address: str = "", known: str = "") -> str:
    """Return the secret for the browser's cookie. Raises SignInRefused with the same sentence for any cause, except for
    the right password of a disabled account; both are in the audit log.

    `address` is the browser's address; `known` identifies a browser on which that person has signed in before.
    """
    name = plain(name)[:200]
    attempt = patience.begin(str(home.path), name, address, known)
    with Reader.open(home) as reader:
        kept, stored, is_disabled = reader.sign_ins.password_of(name)
        admins = [each.name for each in reader.people.everyone() if each.role == "admin" and each.active]
    with at_once:
        fits = passwords.fits(password, stored)
    with Store.open(home, timeout_s=5.0) as store:
        if not fits:
            store.sign_ins.refuse(kept, "wrong name or password", address=address)
            raise SignInRefused(NOBODY)
        if is_disabled:
            store.sign_ins.refuse(kept, "account disabled", address=address)
            patience.forgive(attempt)
            raise SignInRefused(f"The account {kept} is disabled. Ask an admin to enable it: {', '.join(admins)}.")
        if stored and passwords.is_outdated(stored):
            store.sign_ins.renew_password(kept, passwords.hashed(password))
        secret = store.sign_ins.begin(kept, "password", browser=browser)
    patience.forgive(attempt)
    return secret


def sign_in_by_provider(home: Home, who: Vouched, *, browser: str = "") -> str:
    """Return the secret for the browser's cookie after a sign-in at a provider. Raises SignInRefused; both are in the
    audit log.
    """
    with Store.open(home, timeout_s=5.0) as store:
        try:
            person = store.people.known_by_provider(who.issuer, who.subject, who.name, who.email, who.role)
            return store.sign_ins.begin(person.name, "provider", browser=browser)
        except SignInRefused as error:
            store.sign_ins.refuse(f"{who.name or who.email or who.subject} at {who.issuer}", str(error))
            if who.unverified:
                raise SignInRefused(
                    f"{error} Your e-mail address was ignored: the provider has not verified it."
                ) from None
            raise


def change_password(home: Home, name: str, present: str, new: str, *, browser: str = "") -> str:
    """Change the password and return the new secret for the browser's cookie.

    Raises SignInRefused for a wrong current password or too many attempts, ConfigError for an invalid new one. Wrong
    attempts count as failed sign-ins, so that an unattended browser can't be used for guessing.
    """
    attempt = patience.begin(str(home.path), name, "", f"password of {name}")
    with Reader.open(home) as reader:
        kept, stored, _ = reader.sign_ins.password_of(name)
    with at_once:
        fits = passwords.fits(present, stored)
    if not fits:
        with Store.open(home, timeout_s=5.0) as store:
            store.sign_ins.refuse(kept, "password change: wrong current password")
        raise SignInRefused("Current password is incorrect. Nothing was changed.")
    patience.forgive(attempt)
    if new == present:
        raise ConfigError.of("password", "The new password must differ from the current one.")
    with at_once, Store.open(home, timeout_s=5.0) as store:
        store.people.set_password(kept, new, by=kept)
        return store.sign_ins.begin(kept, "password", browser=browser)
