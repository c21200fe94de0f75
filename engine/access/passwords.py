"""Passwords: their rules, their argon2 hashes, and a check that takes equally long for unknown names."""

import ipaddress
import secrets
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cache
from threading import Lock

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from engine.errors import ConfigError, SignInRefused

LEAST, MOST = 10, 200
_CLEAR = "abcdefghjkmnpqrstuvwxyz23456789"
_hasher = PasswordHasher()
"""The library's defaults: argon2id, 64 MiB, three passes (RFC 9106, the second recommended choice)."""


def hashed(password: str, name: str = "") -> str:
    """Return a password's hash, with salt and parameters; raises ConfigError for a password that is too short, too long
    or too close to the person's name.
    """
    if not LEAST <= len(password) <= MOST:
        raise ConfigError.of(
            "password",
            f"The password must have {LEAST} to {MOST} characters; got {len(password)}. A sentence is easy to "
            "remember.",
        )
    if name and name.casefold() in password.casefold() and len(password) - len(name) < 6:
        raise ConfigError.of("password", "The password is too similar to the user name. Choose another one.")
    if len(set(password)) < 4:
        raise ConfigError.of("password", "The password has too few different characters. Choose another one.")
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


# ---- Rate limit for sign-ins: failures are counted per address and per name, and too many cause a wait -------------
# A name alone has a high limit: otherwise anyone could lock out anyone else. A browser on which that person has
# signed in before is counted separately, so that failures elsewhere don't lock it out.

WITHIN_S = 900.0
"""Seconds until a failure expires."""
OF_A_NAME_FROM_ONE_PLACE = 10
FROM_ONE_PLACE = 100
"""For all names: people behind one address share it."""
OF_A_NAME = 100
"""From all addresses."""
FROM_A_KNOWN_BROWSER = 10
MOST_KEYS = 20_000
"""Maximum number of counters; beyond it the oldest is dropped."""


@dataclass(frozen=True)
class Attempt:
    """One sign-in attempt: its counters with their limits, and its start."""

    bounds: tuple[tuple[Hashable, int], ...]
    at: float


class Patience:
    """The recent failures of this process; thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failed: dict[Hashable, list[float]] = {}
        self._lock = Lock()

    def begin(self, lab: str, name: str, address: str, known: str) -> Attempt:
        """Start one attempt, counted as failed until it is forgiven; raises SignInRefused, without counting, after too
        many failures.

        `known` identifies a browser on which that person has signed in before; empty for any other.
        """
        attempt = Attempt(_bounds(lab, name.casefold(), _place(address), known), self._clock())
        with self._lock:
            for key, most in attempt.bounds:
                if len(self._recent(key, attempt.at)) >= most:
                    raise SignInRefused(
                        "Too many failed sign-ins from this address or for this name. Try again in "
                        f"{WITHIN_S / 60:.0f} minutes."
                    )
            for key, _ in attempt.bounds:
                self._failed[key] = [*self._failed.pop(key, ()), attempt.at]
            for old in list(self._failed)[:-MOST_KEYS]:
                del self._failed[old]
        return attempt

    def forgive(self, attempt: Attempt) -> None:
        """Remove a successful attempt from the failures."""
        with self._lock:
            for key, _ in attempt.bounds:
                if attempt.at in (failed := self._failed.get(key, [])):
                    failed.remove(attempt.at)

    def _recent(self, key: Hashable, moment: float) -> list[float]:
        found = [at for at in self._failed.get(key, ()) if moment - at < WITHIN_S]
        if found:
            self._failed[key] = found
        else:
            self._failed.pop(key, None)
        return found


def _bounds(lab: str, name: str, place: str, known: str) -> tuple[tuple[Hashable, int], ...]:
    if known:
        return (((lab, "browser", known), FROM_A_KNOWN_BROWSER),)
    return (
        ((lab, "name and place", name, place), OF_A_NAME_FROM_ONE_PLACE),
        ((lab, "place", place), FROM_ONE_PLACE),
        ((lab, "name", name), OF_A_NAME),
    )


def _place(address: str) -> str:
    """Return an address; for IPv6 the /64 network that one customer gets."""
    try:
        found = ipaddress.ip_address(address.split("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        return str(found.ipv4_mapped or ipaddress.IPv6Network((found, 64), strict=False).network_address)
    return str(found)
