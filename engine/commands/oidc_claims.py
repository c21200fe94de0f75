"""A person's identity and role from a provider's ID token. Pure: the caller has verified the token."""

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
    return (
        email
        if len(email) <= EMAIL_LENGTH and email.count("@") == 1 and email.isprintable() and " " not in email
        else ""
    )


def _shown(name: str) -> str:
    """Return a name normalised to printable characters, without surrounding blanks."""
    plain = unicodedata.normalize("NFKC", name)
    return " ".join("".join(letter if letter.isprintable() else " " for letter in plain).split())


def _text(claims: Mapping[str, Any], key: str) -> str:
    found = claims.get(key)
    return found if isinstance(found, str) else ""
