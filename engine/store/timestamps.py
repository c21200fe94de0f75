"""The store's time format: UTC, ISO 8601, milliseconds, Z; such texts sort chronologically."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta

LEAST_WAIT_S = 1.0
"""Shortest time in the queue that runs and tools mention."""
_recorded: ContextVar[str | None] = ContextVar("recorded", default=None)


def now() -> str:
    """Return the current time in the store's format, or that of `recorded_at`."""
    return _recorded.get() or in_seconds(0)


@contextmanager
def recorded_at(at: str) -> Iterator[None]:
    """Let `now` return this time within a block, which stores what happened then; raises ValueError for another
    format.
    """
    datetime.fromisoformat(at)
    token = _recorded.set(at)
    try:
        yield
    finally:
        _recorded.reset(token)


def in_seconds(seconds: float, at: str | None = None) -> str:
    """Return the time this many seconds after a stored time, or after now (before, if negative), in the store's
    format.
    """
    moment = (datetime.fromisoformat(at) if at else datetime.now(UTC)) + timedelta(seconds=seconds)
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def in_minutes(at: str) -> str:
    """Return a stored time as a sentence has it, such as `2026-05-04 16:00 UTC`."""
    return f"{at[:16].replace('T', ' ')} UTC"


def to_the_second(at: str) -> str:
    """Return a stored time in full as a sentence has it, such as `2026-05-04 16:00:07 UTC`."""
    return f"{at[:19].replace('T', ' ')} UTC"


def seconds_since(at: str, until: str | None = None) -> float:
    """Return the seconds from a stored time until another, or until now, at least 0."""
    end = datetime.fromisoformat(until) if until else datetime.now(UTC)
    return max(0.0, (end - datetime.fromisoformat(at)).total_seconds())
