"""Scaling laws fitted to throughput: Amdahl's, Gustafson's and the Universal Scalability Law, with intervals of their
parameters. Torch-free.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import floor, inf, isfinite, sqrt
from typing import Any

from engine.analysis.scaling.scaling_data import TimedRun
from engine.analysis.statistics.intervals import student

POOR = 0.15
"""Fit error from which the finding mentions it."""
WORST = 0.4
"""Maximum fit error; a law with a larger one is rejected."""
FURTHEST = 4
"""Multiple of the largest measured count up to which a predicted peak is mentioned."""
WIDEST = 0.5
"""Maximum interval width of a share (0 to 1); a law with a wider one is rejected."""


@dataclass(frozen=True)
class Law:
    """Speed-up as a function of the count n and one or two parameters."""

    name: str
    source: str
    parameters: tuple[str, ...]
    bounds: tuple[tuple[float, float], ...]
    """Minimum and maximum possible value of each parameter."""
    speed_up: Callable[..., Any]


@dataclass(frozen=True)
class Parameter:
    """A fitted value with its 95 % interval, within the law's bounds."""

    name: str
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Fit:
    """A law fitted to one line."""

    law: Law
    per_second: float
    """Fitted throughput at 1."""
    parameters: tuple[Parameter, ...]
    error: float
    """Root mean squared relative difference to the runs (0.05: five percent)."""

    def speed_up(self, count: float) -> float:
        """Return the law's speed-up at a count."""
        return float(self.law.speed_up(count, *(parameter.value for parameter in self.parameters)))

    def parameter(self, name: str) -> Parameter:
        return next(found for found in self.parameters if found.name == name)


def _amdahl(count: Any, serial: Any) -> Any:
    return count / (1 + serial * (count - 1))


def _gustafson(count: Any, serial: Any) -> Any:
    return count - serial * (count - 1)


def _scalability(count: Any, contention: Any, coherency: Any) -> Any:
    return count / (1 + contention * (count - 1) + coherency * count * (count - 1))


SHARE = (0.0, 1.0)
AMDAHL = Law("Amdahl", "Amdahl 1967", ("serial share",), (SHARE,), _amdahl)
GUSTAFSON = Law("Gustafson", "Gustafson 1988", ("serial share",), (SHARE,), _gustafson)
SCALABILITY = Law(
    "Universal Scalability Law", "Gunther 1993", ("contention", "coherency"), (SHARE, (0.0, inf)), _scalability
)
LAWS = (AMDAHL, GUSTAFSON, SCALABILITY)


def fit(law: Law, timings: Sequence[TimedRun]) -> Fit | str:
    """Return a law fitted to the runs of one line by least squares of relative differences, or the reason why it can't
    be fitted.

    Throughput at 1 is fitted too, so that the error of the reference point counts. Intervals are Student's, from the
    covariance of the unbounded fit, cut at the law's bounds: the true value lies within the bounds, so coverage is
    unchanged. A law with an interval outside a bound is rejected.
    """
    freedom = len(timings) - len(law.parameters) - 1
    if freedom < 1:
        needed = len(law.parameters) + 2
        return f"At least {needed} runs are needed for this fit; got {len(timings)}. Add seeds or sizes."
    if len({timing.count for timing in timings}) <= len(law.parameters):
        return "These sizes can't identify the parameters. Add sizes."
    import numpy as np  # imported late, with scipy, to keep other pages fast
    from scipy.optimize import OptimizeWarning, curve_fit

    counts, rates = (
        np.array([getattr(timing, name) for timing in timings], dtype=float) for name in ("count", "per_second")
    )
    base = float(rates[counts == counts.min()].mean())

    def rate(count: Any, first: Any, *parameters: Any) -> Any:
        return first * law.speed_up(count, *parameters)

    def fitted(**options: Any) -> tuple[Any, Any]:
        start = [1.0, *([0.05, 0.005][: len(law.parameters)])]
        found: tuple[Any, Any] = curve_fit(
            rate, counts, rates / base, p0=start, sigma=rates / base, maxfev=5_000, **options
        )
        return found

    try:
        found, covariance = fitted()
        if not np.all(np.isfinite(covariance)):
            return "These sizes can't identify the parameters. Add sizes."
        reach = student(0.95, freedom) * np.sqrt(np.diag(covariance))
        intervals = list(zip((found - reach)[1:].tolist(), (found + reach)[1:].tolist(), strict=True))
        if why := _beyond(law, intervals):
            return why
        least, most = zip(*law.bounds, strict=True)
        if np.any(found[1:] < least) or np.any(found[1:] > most):
            found, _ = fitted(bounds=([0.0, *least], [inf, *most]), method="dogbox")  # dogbox can reach a bound exactly
    except (RuntimeError, OptimizeWarning):
        return "The fit did not converge."
    parameters = tuple(
        _within(name, value, interval, bounds)
        for name, value, interval, bounds in zip(law.parameters, found[1:].tolist(), intervals, law.bounds, strict=True)
    )
    expected = rate(counts, *found)
    error = float(np.sqrt(np.mean((expected * base / rates - 1) ** 2)))
    if error > WORST:
        return f"No fit: the runs differ from this law by {error:.0%}."
    return Fit(law, float(found[0] * base), parameters, error)


def _beyond(law: Law, intervals: Sequence[tuple[float, float]]) -> str:
    """Return why these intervals are not valid for the law; empty if they are."""
    for name, (low, high), (least, most) in zip(law.parameters, intervals, law.bounds, strict=True):
        if low > most:
            return f"{name.capitalize()} would be above {most:g}: the runs slow down more than this law allows."
        if high < least:
            return f"{name.capitalize()} would be below {least:g}: the runs speed up more than this law allows."
        known = min(high, most) - max(low, least)
        if isfinite(most) and known > WIDEST * (most - least):
            return (
                f"The 95 % interval of the {name} is too wide ({max(low, least):.2g} to {min(high, most):.2g}, more "
                "than half of the possible range). Add seeds or sizes."
            )
    return ""


def _within(name: str, value: float, interval: tuple[float, float], bounds: tuple[float, float]) -> Parameter:
    """Return a parameter with its interval clipped to the bounds; a value near a bound is set to it."""
    low, high = (min(max(end, bounds[0]), bounds[1]) for end in interval)
    return Parameter(name, min(max(value, low), high), low, high)


def best_count(found: Fit) -> float:
    """Return the count at the peak of the Universal Scalability Law; infinite if its interval does not confirm
    a peak.
    """
    contention, coherency = found.parameter("contention"), found.parameter("coherency")
    if coherency.low <= 0:
        return inf
    peak = sqrt(max(0.0, 1 - contention.value) / coherency.value)
    low = max(1, floor(peak))
    return float(max((low, low + 1), key=found.speed_up))


def in_words(found: Fit, largest: int, plural: str, singular: str) -> str:
    """Return the finding of a fitted Universal Scalability Law, as a sentence; `largest` is the largest
    measured count.
    """
    hint = f" Rough estimate: the fit error is {found.error:.0%}." if found.error > POOR else ""
    return _finding(found, largest, plural, singular) + hint


def _finding(found: Fit, largest: int, plural: str, singular: str) -> str:
    best, many, there = best_count(found), _counted(largest, plural, singular), found.speed_up(largest)
    one = f"1 {singular}"
    if best <= 1:
        return f"Slower beyond {one}."
    if best < largest:
        most = found.speed_up(best)
        return f"Fastest at {_counted(int(best), plural, singular)} ({most:.2g} times as fast as {one}); slower beyond."
    if there < 1:
        return (
            f"More {plural} don't pay off: {largest} are {there:.2g} times as fast as {one}, and the fit shows no peak."
        )
    if best > FURTHEST * largest:
        return f"No slow-down up to {many}: {there:.2g} times as fast as {one}."
    return f"Still speeding up at {many}; the fit predicts a peak near {best:.0f}."


def _counted(count: int, plural: str, singular: str) -> str:
    return f"{count} {singular if count == 1 else plural}"
