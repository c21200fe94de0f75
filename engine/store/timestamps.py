"""The store's time format: UTC, ISO 8601, milliseconds, Z; such texts sort chronologically."""

from datetime import UTC, datetime, timedelta


def now() -> str:
    """Return the current time in the store's format."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def in_seconds(seconds: float) -> str:
    """Return the time in this many seconds (or ago, if negative), in the store's format."""
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def seconds_since(at: str) -> float:
    """Return the age of a stored time in seconds, at least 0."""
    return max(0.0, (datetime.now(UTC) - datetime.fromisoformat(at)).total_seconds())
