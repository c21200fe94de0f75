"""Laws of scaling fitted to work a second: Amdahl's, Gustafson's and the Universal Scalability Law, each with intervals of its parameters. Torch-free."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import floor, inf, sqrt
from typing import Any

from engine.analysis.intervals import student
from engine.analysis.study import Timing

POOR = 0.15
"""The error of a fit from which its sentence says so."""


@dataclass(frozen=True)
class Law:
    """Speed-up as a function of the count n and one or two parameters."""

    name: str
    source: str
    parameters: tuple[str, ...]
    speed_up: Callable[..., Any]


@dataclass(frozen=True)
class Parameter:
    """A fitted number with its 95 % interval."""

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


AMDAHL = Law("Amdahl", "Amdahl 1967", ("serial share",), _amdahl)
GUSTAFSON = Law("Gustafson", "Gustafson 1988", ("serial share",), _gustafson)
SCALABILITY = Law("Universal Scalability Law", "Gunther 1993", ("contention", "coherency"), _scalability)
LAWS = (AMDAHL, GUSTAFSON, SCALABILITY)


def fit(law: Law, timings: Sequence[Timing]) -> Fit | str:
    """Return a law fitted to the runs of one line by least squares of relative differences; or why it can't be, in words.

    Work a second at 1 is fitted too, so that the reference point's own error counts. Intervals are Student's, from the fit's covariance.
    """
    freedom = len(timings) - len(law.parameters) - 1
    if freedom < 1:
        needed = len(law.parameters) + 2
        return f"{len(law.parameters) + 1} numbers from {len(timings)} runs leave nothing to tell their error by: it takes {needed} runs. Add seeds or sizes."
    if len({timing.count for timing in timings}) <= len(law.parameters):
        return "These sizes don't tell its parameters apart. Add sizes."
    import numpy as np  # taken late, with scipy: a page that fits nothing does not wait for it
    from scipy.optimize import OptimizeWarning, curve_fit

    counts, rates = (np.array([getattr(timing, name) for timing in timings], dtype=float) for name in ("count", "per_second"))
    base = float(rates[counts == counts.min()].mean())
    try:
        found, covariance = curve_fit(
            lambda count, rate, *parameters: rate * law.speed_up(count, *parameters),
            counts,
            rates / base,
            p0=[1.0, *([0.05, 0.005][: len(law.parameters)])],
            sigma=rates / base,
            maxfev=5_000,
        )
    except (RuntimeError, OptimizeWarning):
        return "No parameters bring it near these runs."
    if not np.all(np.isfinite(covariance)):
        return "These sizes don't tell its parameters apart. Add sizes."
    reach = student(0.95, freedom) * np.sqrt(np.diag(covariance))
    parameters = tuple(
        Parameter(name, float(value), float(value - half), float(value + half)) for name, value, half in zip(law.parameters, found[1:], reach[1:], strict=True)
    )
    expected = found[0] * law.speed_up(counts, *found[1:])
    return Fit(law, float(found[0] * base), parameters, float(np.sqrt(np.mean((expected * base / rates - 1) ** 2))))


def best_count(found: Fit) -> float:
    """Return the count at which the Universal Scalability Law has its peak; infinite where its interval leaves open whether there is one."""
    contention, coherency = found.parameter("contention"), found.parameter("coherency")
    if coherency.low <= 0:
        return inf
    peak = sqrt(max(0.0, 1 - contention.value) / coherency.value)
    low = max(1, floor(peak))
    return float(max((low, low + 1), key=found.speed_up))


def in_words(found: Fit, largest: int, plural: str, singular: str) -> str:
    """Return what a fitted Universal Scalability Law says, in a sentence; `largest` is the largest count that was measured."""
    hint = f" The law is off by {found.error:.0%}, so take it as a hint." if found.error > POOR else ""
    return _told(found, largest, plural, singular) + hint


def _told(found: Fit, largest: int, plural: str, singular: str) -> str:
    best, many, there = best_count(found), _counted(largest, plural, singular), found.speed_up(largest)
    if best <= 1:
        return f"Beyond 1 {singular} more of them slow it down."
    if best < largest:
        most = found.speed_up(best)
        return f"Beyond {_counted(int(best), plural, singular)} more of them slow it down: there it is fastest, {most:.2g} times as fast as with 1."
    if there < 1:
        return f"More {plural} don't pay here: with {largest} it is {there:.2g} times as fast as with 1, and where it turns can't be told."
    if best == inf:
        return f"Up to {many} no slow-down shows; that many are {there:.2g} times as fast as 1."
    return f"Up to {many} more of them still help; by the fitted law they would slow it down beyond about {best:.0f}."


def _counted(count: int, plural: str, singular: str) -> str:
    return f"{count} {singular if count == 1 else plural}"
