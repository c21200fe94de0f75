"""Passwords: their rule, their argon2 hashes, and a check that takes as long for a name that nobody has."""

import secrets
from functools import cache

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from engine.errors import ConfigError, Problem

LEAST, MOST = 10, 200
_hasher = PasswordHasher()
"""The library's defaults: argon2id, 64 MiB, three passes (RFC 9106, the second recommended choice)."""


def hashed(password: str, name: str = "") -> str:
    """Return a password's hash, salt and parameters in it; raises ConfigError for one that is too short, too long or
    the person's own name.
    """
    if not LEAST <= len(password) <= MOST:
        raise ConfigError(
            [
                Problem(
                    "password",
                    (
                        f"A password has {LEAST} to {MOST} characters, this one has {len(password)}. A sentence is "
                        "easy to keep."
                    ),
                )
            ]
        )
    if name and name.casefold() in password.casefold() and len(password) - len(name) < 6:
        raise ConfigError(
            [Problem("password", "A password may not be the name with little added. Choose another one.")]
        )
    if len(set(password)) < 4:
        raise ConfigError(
            [Problem("password", "A password of so few different characters is guessed at once. Choose another one.")]
        )
    return _hasher.hash(password)


def made() -> str:
    """Return a password of 96 random bits, for an admin to hand over."""
    return secrets.token_urlsafe(12)


def fits(password: str, stored: str | None) -> bool:
    """Say whether a password is that of a hash. Without a hash (an unknown name) the answer is no, after
    the same work.
    """
    nobodys = _nobodys()  # always, so that the first unknown name does not cost more than a known one
    try:
        _hasher.verify(stored or nobodys, password[: 4 * MOST])
    except (VerificationError, InvalidHashError):
        return False
    return stored is not None


def is_outdated(stored: str) -> bool:
    """Say whether a hash was made with other parameters than today's, so that the next sign-in should renew it."""
    return _hasher.check_needs_rehash(stored)


@cache
def _nobodys() -> str:
    return _hasher.hash("a password that nobody has")
