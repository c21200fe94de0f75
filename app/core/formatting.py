"""Lengths of time, moments and sizes in words."""

import re
from datetime import UTC, datetime
from typing import Literal

from engine.analysis.statistics.intervals import MeanDifference
from engine.filter.tree import duration as duration  # one import location for pages

LEAST_PERCENT = 0.01
"""Percentage below which two decimals would hide it."""
_SECONDS = ((7200.0, "h", 3600.0), (300.0, "min", 60.0), (1.0, "s", 1.0), (1e-3, "ms", 1e-3), (0.0, "µs", 1e-6))
_BYTES = ((1e12, "TB", 1e12), (1e9, "GB", 1e9), (1e6, "MB", 1e6), (1e3, "kB", 1e3), (0.0, "B", 1.0))
_AGES = ((31_557_600, "y"), (86_400, "d"), (3_600, "h"), (60, "min"))
_SCALES = {"s": (_SECONDS, 1.0), "ms": (_SECONDS, 1e-3), "B": (_BYTES, 1.0), "MB": (_BYTES, 1e6)}
"""The steps of a unit, from which value on each fits, and the unit in seconds or bytes; as in plot/units.js."""


def moment(text: str) -> datetime:
    """Return a time of the store as a datetime in UTC."""
    return datetime.fromisoformat(text)


def now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)


def ago(text: str | None, at: datetime | None = None) -> str:
    """Return a time of the store relative to now; a dash for None."""
    if text is None:
        return "–"
    seconds = ((at or now()) - moment(text)).total_seconds()
    if seconds < 2:
        return "just now"
    size, unit = next(((size, unit) for size, unit in _AGES if seconds >= size), (1, "s"))
    return f"{int(seconds // size)} {unit} ago"


def absolute(text: str | None) -> str:
    """Return a time of the store in full, for hovers."""
    return "" if text is None else moment(text).strftime("%Y-%m-%d %H:%M:%S UTC")


def since(start: str | None, end: str | None = None) -> float | None:
    """Return the seconds from one time of the store to another (default: now), or None without a start."""
    if start is None:
        return None
    return max(0.0, ((moment(end) if end else now()) - moment(start)).total_seconds())


def gigabytes(megabytes: float) -> float:
    """Return MB, as stored of memory, in GB; both are decimal."""
    return megabytes / 1_000


def scaled(value: float, unit: str) -> tuple[float, str]:
    """Return a number and its unit with the unit that fits: 2500 MB as 2.5 GB, 0.02 s as 20 ms. Units that have no
    larger or smaller ones stay.
    """
    if unit not in _SCALES or not value:
        return value, unit
    steps, base = _SCALES[unit]
    _, name, size_ = next(step for step in steps if abs(value) * base >= step[0])
    return value * base / size_, name


MINUS = "\u2212"


def signed(value: float, text: str) -> str:
    """Return the text of a number without its sign with that sign; one that is rounded to 0 has none, nor decimals."""
    return f"{'+' if value > 0 else MINUS}{text}" if re.search("[1-9]", text) else re.sub(r"0\.0+", "0", text)


def in_percent_and_errors(found: MeanDifference, points: str = "") -> str:
    """Return a difference of means in percent of the other mean, of percentages in `points`, and in standard errors
    where there is one.
    """

    def rounded(value: float, decimals: int) -> str:
        less = 0 if abs(value) < 9.95 else 1 if abs(value) < 99.5 else 2
        return signed(value, f"{abs(value):,.{max(0, decimals - less)}f}")

    share = [points] if points else [] if found.share is None else [f"{rounded(100 * found.share, 2)} %"]
    return " · ".join([*share, *([f"{rounded(found.mean / found.error, 1)} SE"] if found.error else [])])


TOO_FEW = "too few runs to judge"


def chance(found: MeanDifference) -> str:
    """Return in words whether a difference is more than chance: whether its 95 % interval excludes 0."""
    few = TOO_FEW if found.error else ""
    return few if found.interval is None else "more than chance" if found.sign else "within chance"


def tone(found: MeanDifference, better: Literal["max", "min"] | None) -> str:
    """Return the class of a difference's colour: none while its interval includes 0."""
    good = {"max": 1, "min": -1}.get(better or "")
    return "" if not found.sign else "other" if good is None else "better" if found.sign == good else "worse"


def size(bytes_: int) -> str:
    """Return a size in a readable unit."""
    value, unit = scaled(bytes_, "B")
    return f"{value:,.0f} {unit}" if unit in ("B", "kB") else f"{value:,.1f} {unit}"
