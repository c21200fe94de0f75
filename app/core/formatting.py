"""Lengths of time, moments and sizes in words."""

from datetime import UTC, datetime

from engine.filter.times import duration as duration  # pages have one place for what they say

GB, MB = 2**30, 2**20


def moment(text: str) -> datetime:
    """Return the store's text for a time as a datetime in UTC."""
    return datetime.fromisoformat(text)


def now() -> datetime:
    """Return this moment in UTC."""
    return datetime.now(UTC)


def ago(text: str | None, at: datetime | None = None) -> str:
    """Return how long ago a time of the store was; a dash where there is none."""
    if text is None:
        return "–"
    seconds = ((at or now()) - moment(text)).total_seconds()
    if seconds < 2:
        return "just now"
    size, unit = next(
        ((size, unit) for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")) if seconds >= size), (1, "s")
    )
    return f"{int(seconds // size)} {unit} ago"


def absolute(text: str | None) -> str:
    """Return a time of the store as it is shown on hover."""
    return "" if text is None else moment(text).strftime("%Y-%m-%d %H:%M:%S UTC")


def since(start: str | None, end: str | None = None) -> float | None:
    """Return the seconds from a time of the store to another (default: now), or None where there is no start."""
    if start is None:
        return None
    return max(0.0, ((moment(end) if end else now()) - moment(start)).total_seconds())


def size(bytes_: int) -> str:
    """Return a size in the unit that people would say it in."""
    return (
        f"{bytes_ / GB:,.1f} GB"
        if bytes_ >= GB
        else f"{bytes_ / MB:,.1f} MB"
        if bytes_ >= MB // 10
        else f"{bytes_ / 1024:,.0f} KB"
    )
