"""How patient the door is with wrong passwords: failed sign-ins are counted by where they come from and by whom they
name, and too many have to wait.

A name alone is no reason to wait until very many have failed: else anybody could lock anybody out. A browser on which
that person has signed in before is counted by itself, so that nobody else's failures keep it out.
"""

import ipaddress
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from threading import Lock

from engine.errors import SignInRefused

WITHIN_S = 900.0
"""Failures are forgotten so many seconds later."""
OF_A_NAME_FROM_ONE_PLACE = 10
FROM_ONE_PLACE = 100
"""Whatever the names: people behind one address share it."""
OF_A_NAME = 100
"""From wherever they come."""
FROM_A_KNOWN_BROWSER = 10
MOST_KEYS = 20_000
"""What is counted at a time; past it the oldest is forgotten."""


@dataclass(frozen=True)
class Attempt:
    """One sign-in that is being tried: what it counts towards, with how many may fail, and when it began."""

    bounds: tuple[tuple[Hashable, int], ...]
    at: float


class Patience:
    """The failures of the last minutes, in this process alone; for any number of threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failed: dict[Hashable, list[float]] = {}
        self._lock = Lock()

    def begin(self, lab: str, name: str, address: str, known: str) -> Attempt:
        """Let one sign-in be tried, counted as failed until it is forgiven; raises SignInRefused, and counts nothing,
        where too many failed.

        `known` tells a browser on which that person has signed in before; empty for any other.
        """
        attempt = Attempt(_bounds(lab, name.casefold(), _place(address), known), self._clock())
        with self._lock:
            for key, most in attempt.bounds:
                if len(self._recent(key, attempt.at)) >= most:
                    raise SignInRefused(
                        f"Too many sign-ins failed from there or under that name. Wait {WITHIN_S / 60:.0f} "
                        "minutes, then try again."
                    )
            for key, _ in attempt.bounds:
                self._failed[key] = [*self._failed.pop(key, ()), attempt.at]
            for old in list(self._failed)[:-MOST_KEYS]:
                del self._failed[old]
        return attempt

    def forgive(self, attempt: Attempt) -> None:
        """Take back that an attempt failed: it did not."""
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
    """Return an address, or of IPv6 the half that a provider gives to one customer."""
    try:
        found = ipaddress.ip_address(address.split("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        return str(found.ipv4_mapped or ipaddress.IPv6Network((found, 64), strict=False).network_address)
    return str(found)
