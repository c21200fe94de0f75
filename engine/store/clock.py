"""The store's one clock format: UTC, ISO 8601, milliseconds, Z."""

from datetime import UTC, datetime


def now() -> str:
    """Return this moment as the store writes it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
