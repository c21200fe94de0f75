"""A mean with its interval in words, wherever a page or a report shows one."""

from app.ui.html import number
from engine.analysis.statistics.intervals import FEWEST, LIMIT, Interval

EXPLAINED = {
    name: f"Brackets and error bars show the 95 % confidence interval of the {name}. With fewer than {FEWEST[name]} "
    f"values they show the minimum and maximum.{limit}"
    for name, limit in (("mean", f" {LIMIT}"), ("median", ""))
}


def with_interval(found: Interval | None, unit: str = "") -> str:
    """Return a mean with its interval, or with minimum and maximum if there is none (`EXPLAINED`); a dash without a
    mean.
    """
    if found is None:
        return "–"
    mean = number(found.mean, unit=unit)
    if found.count == 1:
        return mean
    if found.is_constant:
        return f"{mean} (all {found.count} equal)"
    low, high = number(found.low, unit=unit), number(found.high, unit=unit)
    return f"{mean} ({low} – {high})"


def ends_in_words(found: Interval | None, form: str = "+.3g") -> str:
    """Return the ends of an interval, or minimum and maximum if there is none; a dash without two values."""
    if found is None or found.count == 1:
        return "–"
    low, high = f"{found.low:{form}}", f"{found.high:{form}}"
    return f"{low} – {high}" if found.is_known else f"min {low}, max {high}"
