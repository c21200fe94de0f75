"""The store's one clock format: UTC, ISO 8601, milliseconds, Z; such texts sort as the moments do."""

from datetime import UTC, datetime, timedelta


def now() -> str:
    """Return this moment as the store writes it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def in_seconds(seconds: float) -> str:
    """Return the moment in so many seconds, or (below 0) so many ago, as the store writes it."""
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def seconds_since(at: str) -> float:
    """Return the age of a moment that the store wrote, at least 0."""
    return max(0.0, (datetime.now(UTC) - datetime.fromisoformat(at)).total_seconds())
