"""Laws of scaling fitted to work a second: Amdahl's, Gustafson's and the Universal Scalability Law, each with intervals
of its parameters. Torch-free.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import floor, inf, isfinite, sqrt
from typing import Any

from engine.analysis.scaling.scaling_data import TimedRun
from engine.analysis.statistics.confidence import student

POOR = 0.15
"""The error of a fit from which its sentence says so."""
WIDEST = 0.5
"""The largest interval of a share (0 to 1) that still states it; with a wider one the law is not fitted."""


@dataclass(frozen=True)
class Law:
    """Speed-up as a function of the count n and one or two parameters."""

    name: str
    source: str
    parameters: tuple[str, ...]
    bounds: tuple[tuple[float, float], ...]
    """The least and the greatest possible value of each parameter."""
    speed_up: Callable[..., Any]


@dataclass(frozen=True)
class Parameter:
    """A fitted number with its 95 % interval, all within the law's bounds."""

    name: str
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Fit:
    """A law fitted to one line."""

    law: Law
    per_second: float
    """Work a second at 1, as fitted."""
    parameters: tuple[Parameter, ...]
    error: float
    """Root of the mean squared relative difference to the runs (0.05: five percent)."""

    def speed_up(self, count: float) -> float:
        """Return the speed-up that the law gives at a count."""
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
    """Return a law fitted to the runs of one line by least squares of relative differences; or why it can't be, in
    words.

    Work a second at 1 is fitted too, so that the reference point's own error counts. Intervals are Student's, from the
    covariance of the fit without bounds, cut at the law's bounds: the true value lies within these, so they cover it as
    often. A law whose interval lies beyond a bound is refused.
    """
    freedom = len(timings) - len(law.parameters) - 1
    if freedom < 1:
        needed = len(law.parameters) + 2
        return (
            f"{len(law.parameters) + 1} numbers from {len(timings)} runs leave nothing to tell their error by: it "
            f"takes {needed} runs. Add seeds or sizes."
        )
    if len({timing.count for timing in timings}) <= len(law.parameters):
        return "These sizes don't tell its parameters apart. Add sizes."
    import numpy as np  # taken late, with scipy: a page that fits nothing does not wait for it
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
            return "These sizes don't tell its parameters apart. Add sizes."
        reach = student(0.95, freedom) * np.sqrt(np.diag(covariance))
        intervals = list(zip((found - reach)[1:].tolist(), (found + reach)[1:].tolist(), strict=True))
        if why := _beyond(law, intervals):
            return why
        least, most = zip(*law.bounds, strict=True)
        if np.any(found[1:] < least) or np.any(found[1:] > most):
            found, _ = fitted(
                bounds=([0.0, *least], [inf, *most]), method="dogbox"
            )  # which reaches a bound, not only its neighbourhood
    except (RuntimeError, OptimizeWarning):
        return "No parameters bring it near these runs."
    parameters = tuple(
        _within(name, value, interval, bounds)
        for name, value, interval, bounds in zip(law.parameters, found[1:].tolist(), intervals, law.bounds, strict=True)
    )
    expected = rate(counts, *found)
    return Fit(law, float(found[0] * base), parameters, float(np.sqrt(np.mean((expected * base / rates - 1) ** 2))))


def _beyond(law: Law, intervals: Sequence[tuple[float, float]]) -> str:
    """Return why these intervals state no possible law, in words; empty where they do."""
    for name, (low, high), (least, most) in zip(law.parameters, intervals, law.bounds, strict=True):
        if low > most:
            return f"Its {name} would be above {most:g}: these runs slow down more than this law allows."
        if high < least:
            return f"Its {name} would be below {least:g}: these runs speed up more than this law allows."
        known = min(high, most) - max(low, least)
        if isfinite(most) and known > WIDEST * (most - least):
            return (
                f"The 95 % interval of its {name} reaches from {max(low, least):.2g} to {min(high, most):.2g}, "
                "more than half of what is possible: "
                "too few runs to state it. Add seeds or sizes."
            )
    return ""


def _within(name: str, value: float, interval: tuple[float, float], bounds: tuple[float, float]) -> Parameter:
    """Return a parameter with its interval cut at the bounds; one that lies on a bound is put there."""
    low, high = (min(max(end, bounds[0]), bounds[1]) for end in interval)
    return Parameter(name, min(max(value, low), high), low, high)


def best_count(found: Fit) -> float:
    """Return the count at which the Universal Scalability Law has its peak; infinite where its interval leaves open
    whether there is one.
    """
    contention, coherency = found.parameter("contention"), found.parameter("coherency")
    if coherency.low <= 0:
        return inf
    peak = sqrt(max(0.0, 1 - contention.value) / coherency.value)
    low = max(1, floor(peak))
    return float(max((low, low + 1), key=found.speed_up))


def in_words(found: Fit, largest: int, plural: str, singular: str) -> str:
    """Return what a fitted Universal Scalability Law says, in a sentence; `largest` is the largest count that was
    measured.
    """
    hint = f" The law is off by {found.error:.0%}, so take it as a hint." if found.error > POOR else ""
    return _told(found, largest, plural, singular) + hint


def _told(found: Fit, largest: int, plural: str, singular: str) -> str:
    best, many, there = best_count(found), _counted(largest, plural, singular), found.speed_up(largest)
    if best <= 1:
        return f"Beyond 1 {singular} more of them slow it down."
    if best < largest:
        most = found.speed_up(best)
        return (
            f"Beyond {_counted(int(best), plural, singular)} more of them slow it down: there it is fastest, "
            f"{most:.2g} times as fast as with 1."
        )
    if there < 1:
        return (
            f"More {plural} don't pay here: with {largest} it is {there:.2g} times as fast as with 1, and where it "
            "turns can't be told."
        )
    if best == inf:
        return f"Up to {many} no slow-down shows; that many are {there:.2g} times as fast as 1."
    return f"Up to {many} more of them still help; by the fitted law they would slow it down beyond about {best:.0f}."


def _counted(count: int, plural: str, singular: str) -> str:
    return f"{count} {singular if count == 1 else plural}"
