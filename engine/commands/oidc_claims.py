"""What a provider's ID token says of a person, and the role that it gives them. Pure: whoever calls has checked the
token.
"""

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.access.providers import Rules
from engine.access.rules import ROLES, Role
from engine.errors import SignInRefused
from engine.store.access.people import EMAIL_LENGTH

LONGEST = 255
"""OpenID Connect Core 1.0, section 2: a subject has at most 255 characters."""


@dataclass(frozen=True)
class Vouched:
    """Somebody whom a provider vouches for."""

    issuer: str
    subject: str
    name: str
    """What they are called there; may be empty, and proves nothing."""
    email: str
    """An address that the provider has verified, else empty."""
    role: Role | None
    """The highest role that their groups have here."""
    unverified: bool = False
    """Whether it named an address that it has not verified."""


def vouched(claims: Mapping[str, Any], rules: Rules) -> Vouched:
    """Return whom claims name and with which role; raises SignInRefused where they name nobody."""
    issuer, subject = _text(claims, "iss"), _text(claims, "sub")
    if not issuer or not subject or max(len(issuer), len(subject)) > LONGEST:
        raise SignInRefused(
            "The provider's answer does not say who you are (iss and sub). Whoever runs this lab has to see to "
            "the provider."
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
    """Return the highest role that a person's groups have, or the default one."""
    groups = groups_of(claims, rules.groups_claim)
    return next((role for role in reversed(ROLES) if groups & set(rules.roles.get(role, ()))), rules.default_role)


def groups_of(claims: Mapping[str, Any], claim: str) -> frozenset[str]:
    """Return a person's groups: a claim of that whole name, or one within others along the dots; one text is one group,
    and of a table its keys are.
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
    """Return the address, empty for one that no account could have."""
    email = _text(claims, "email").strip()
    return (
        email
        if len(email) <= EMAIL_LENGTH and email.count("@") == 1 and email.isprintable() and " " not in email
        else ""
    )


def _shown(name: str) -> str:
    """Return a name in letters that can be shown and told apart, without blanks round it."""
    plain = unicodedata.normalize("NFKC", name)
    return " ".join("".join(letter if letter.isprintable() else " " for letter in plain).split())


def _text(claims: Mapping[str, Any], key: str) -> str:
    found = claims.get(key)
    return found if isinstance(found, str) else ""
