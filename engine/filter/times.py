"""Parsing and formatting of times and durations: "7d ago", "yesterday", "2026-11-01 14:30"; "5 min", "2 h 30 min". All
in UTC, also with the zone written out: "2026-11-01 14:30 UTC".
"""

import re
from datetime import UTC, datetime, time, timedelta

from engine.filter.tree import Moment

UNITS = {
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1.0),
    **dict.fromkeys(("min", "m", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hour", "hours"), 3_600.0),
    **dict.fromkeys(("d", "day", "days"), 86_400.0),
    **dict.fromkeys(("w", "week", "weeks"), 604_800.0),
}
_SAID = ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s"))
"""Each unit and the next smaller one, both with their seconds."""
_LENGTH = re.compile(r"(?:\d{1,9}(?:\.\d{1,9})?\s*[a-z]+\s*)+", re.ASCII)
_PART = re.compile(r"([\d.]+)\s*([a-z]+)", re.ASCII)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


def read_length(text: str) -> float | None:
    """Parse a duration such as `5 min` or `2h 30min` to seconds; None if invalid."""
    text = text.strip().lower()
    if not _LENGTH.fullmatch(text):
        return None
    parts = [(float(count), UNITS.get(unit)) for count, unit in _PART.findall(text)]
    return (
        None
        if any(unit is None for _, unit in parts)
        else sum(count * unit for count, unit in parts if unit is not None)
    )


def duration(seconds: float | None, *, missing: str = "–", aligned: bool = False) -> str:
    """Format a duration, such as `0.4 s`, `12 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`; `missing` for None.

    `aligned` is for columns: `12.3 s`, `3 min 05 s`, `2 h 00 min`, `76 h 00 min`.
    """
    if seconds is None:
        return missing
    if seconds < (59.95 if aligned else 9.95):
        return f"{max(0.0, seconds):.1f} s"
    whole = round(seconds)
    for size, unit, lesser, name in _SAID[aligned:]:
        if whole >= size:
            rest = whole % size // lesser
            return f"{whole // size} {unit}" + (f" {rest:{'02' if aligned else ''}} {name}" if rest or aligned else "")
    return f"{whole} s"


def read_moment(text: str, now: datetime) -> Moment | None:
    """Parse a time relative to `now`; None if invalid. A date alone is its whole day."""
    text = text.strip().lower()
    if text in ("today", "yesterday"):
        return _day(now - timedelta(days=text == "yesterday"))
    if text.endswith("ago"):
        seconds = read_length(text.removesuffix("ago"))
        try:
            return None if seconds is None else _at(now - timedelta(seconds=seconds))
        except OverflowError:
            return None
    try:
        found = datetime.fromisoformat(re.sub(r"\s*utc$", "z", text).upper())
    except ValueError:
        return None
    if _DATE.fullmatch(text):
        return _day(found)
    try:
        return _at(found if found.tzinfo else found.replace(tzinfo=UTC))
    except OverflowError:
        return None


def _day(at: datetime) -> Moment:
    first = datetime.combine(at.date(), time(), UTC)
    return Moment(
        _written(first),
        _written(first + timedelta(hours=24) - timedelta(milliseconds=1)) if at.year < 9999 else _written(first),
    )


def _at(moment: datetime) -> Moment:
    return Moment(_written(moment), _written(moment))


def _written(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
