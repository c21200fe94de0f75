"""Means over seeds with intervals, and Holm's correction. Torch-free and pure."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from math import inf, sqrt
from typing import Literal

import numpy as np

from engine.analysis.statistics.confidence import EQUAL, FEWEST, LEVEL, Method, Statistic, central, ends, student


@dataclass(frozen=True)
class Interval:
    """A mean (or median) of `count` numbers with the interval of engine/analysis/statistics/confidence.py; with method
    `range` the bounds are minimum and maximum.
    """

    mean: float
    low: float
    high: float
    count: int
    method: Method = "student"

    @property
    def is_constant(self) -> bool:
        """Whether all numbers are equal up to rounding, so that their spread is unknown."""
        return not self.is_known and self.high - self.low <= EQUAL * abs(self.mean)

    @property
    def is_known(self) -> bool:
        """Whether the bounds are an interval, not minimum and maximum."""
        return self.method != "range"

    def side(self, value: float) -> Literal[-1, 0, 1]:
        """Return on which side of a value the interval (or all numbers, if equal) lies; 0 if it includes the value, or
        with too few numbers.
        """
        return 0 if self.count < FEWEST["mean"] else 1 if self.low > value else -1 if self.high < value else 0

    def within(self, least: float, most: float = inf) -> "Interval":
        """Return the interval clipped to the possible range; its coverage is unchanged."""
        return replace(self, low=max(self.low, least), high=min(self.high, most))


def mean_interval(values: Sequence[float], level: float = LEVEL, statistic: Statistic = "mean") -> Interval:
    """Return the mean, or another statistic, with its interval. `values` is not empty."""
    column = np.asarray(values, dtype=np.float64)[:, None]
    found, centre = ends(column, statistic, level), float(central(column, statistic)[0])
    return Interval(centre, float(found.low[0]), float(found.high[0]), len(values), found.method[0])


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values with Holm's correction (1979): values of at most 0.05 include a false one in at most 5 % of
    cases.
    """
    corrected, highest = [1.0] * len(p_values), 0.0
    for place, index in enumerate(sorted(range(len(p_values)), key=lambda index: p_values[index])):
        highest = max(highest, min(1.0, (len(p_values) - place) * p_values[index]))
        corrected[index] = highest
    return corrected


def p_of_no_difference(differences: Sequence[float]) -> float:
    """Return the two-sided p-value of a mean of 0: Student's t, or the sign test for identical differences, whose
    spread is unknown.
    """
    count, found = len(differences), mean_interval(differences)
    if count < 2 or not found.mean:
        return 1.0
    if found.is_constant:
        return float(2.0 ** (1 - count))
    from scipy.special import stdtr

    error = float(np.std(differences, ddof=1)) / sqrt(count)
    return 2 * float(stdtr(count - 1, -abs(found.mean) / error))


def slope_within(xs: Sequence[float], ys: Sequence[float], blocks: Sequence[Hashable]) -> Interval:
    """Return the slope of parallel least-squares lines, one per block, with Student's interval: both variables count as
    differences from their block's mean (fixed effects), so what shifts a whole block does not count.

    Raises ValueError without a degree of freedom (values less blocks less 1), or if all xs of each block are equal.
    """
    places = [[place for place, each in enumerate(blocks) if each == block] for block in dict.fromkeys(blocks)]
    from_mean = [
        (xs[place] - sum(xs[each] for each in own) / len(own), ys[place] - sum(ys[each] for each in own) / len(own))
        for own in places
        for place in own
    ]
    freedom, spread = len(xs) - len(places) - 1, sum(x * x for x, _ in from_mean)
    if freedom < 1 or not spread:
        raise ValueError(f"{len(xs)} values in {len(places)} blocks determine no slope")
    steep = sum(x * y for x, y in from_mean) / spread
    error = sqrt(sum((y - steep * x) ** 2 for x, y in from_mean) / freedom / spread)
    half = student(LEVEL, freedom) * error
    return Interval(steep, steep - half, steep + half, len(xs))
