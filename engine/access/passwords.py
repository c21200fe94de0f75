"""Passwords: their rules, their argon2 hashes, and a check that takes equally long for unknown names."""

import secrets
from functools import cache

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from engine.errors import ConfigError, Problem

LEAST, MOST = 10, 200
_CLEAR = "abcdefghjkmnpqrstuvwxyz23456789"
_hasher = PasswordHasher()
"""The library's defaults: argon2id, 64 MiB, three passes (RFC 9106, the second recommended choice)."""


def hashed(password: str, name: str = "") -> str:
    """Return a password's hash, with salt and parameters; raises ConfigError for a password that is too short, too long
    or too close to the person's name.
    """
    if not LEAST <= len(password) <= MOST:
        raise ConfigError(
            [
                Problem(
                    "password",
                    (
                        f"The password must have {LEAST} to {MOST} characters; got {len(password)}. A sentence is "
                        "easy to remember."
                    ),
                )
            ]
        )
    if name and name.casefold() in password.casefold() and len(password) - len(name) < 6:
        raise ConfigError([Problem("password", "The password is too similar to the user name. Choose another one.")])
    if len(set(password)) < 4:
        raise ConfigError([Problem("password", "The password has too few different characters. Choose another one.")])
    return _hasher.hash(password)


def made() -> str:
    """Return a password of 79 random bits, for an admin to pass on, also on paper: no letter looks like a digit."""
    return "-".join("".join(map(secrets.choice, [_CLEAR] * 4)) for _ in range(4))


def fits(password: str, stored: str | None) -> bool:
    """Return whether a password matches a hash. Without a hash (an unknown name) return False, after the same work."""
    dummy = _dummy_hash()  # always, so that the first unknown name does not cost more than a known one
    try:
        _hasher.verify(stored or dummy, password[: 4 * MOST])
    except (VerificationError, InvalidHashError):
        return False
    return stored is not None


def is_outdated(stored: str) -> bool:
    """Return whether a hash has outdated parameters, so that the next sign-in should renew it."""
    return _hasher.check_needs_rehash(stored)


@cache
def _dummy_hash() -> str:
    return _hasher.hash("a password that nobody has")
