"""Means over seeds with Student's intervals, and the equivalence of one with a value (two one-sided tests). Torch-free and pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite, sqrt
from typing import Literal

Equivalence = Literal["within", "outside", "undecided"]


@dataclass(frozen=True)
class Interval:
    """A mean of `count` numbers with the interval that covers the true one as often as was asked for."""

    mean: float
    low: float
    high: float
    count: int

    def within(self, least: float, most: float = inf) -> "Interval":
        """Return the interval cut at the least and the greatest possible value: it covers the true one as often as before. One of no width known stays so."""
        if not isfinite(self.high - self.low):
            return self
        return Interval(self.mean, max(self.low, least), min(self.high, most), self.count)


def mean_interval(values: Sequence[float], coverage: float = 0.95) -> Interval:
    """Return the mean with Student's interval; infinitely wide for one value. `values` is not empty."""
    count = len(values)
    mean = sum(values) / count
    if count == 1:
        return Interval(mean, -inf, inf, 1)
    spread = sqrt(sum((value - mean) ** 2 for value in values) / (count - 1))
    half = student(coverage, count - 1) * spread / sqrt(count)
    return Interval(mean, mean - half, mean + half, count)


def student(coverage: float, freedom: int) -> float:
    """Return Student's two-sided quantile: so many standard errors reach `coverage` (0 to 1) of the distribution."""
    from scipy.special import stdtrit  # taken late: a page that fits nothing does not wait for it

    return float(stdtrit(freedom, (1 + coverage) / 2))


def equivalence(values: Sequence[float], value: float, tolerance: float) -> Equivalence:
    """Say whether a mean is within `tolerance` of `value` at the 5 % level (TOST, Schuirmann 1987): its 90 % interval lies inside.

    `outside` where that interval lies outside as a whole, `undecided` where it does neither.
    """
    found = mean_interval(values, 0.9)
    if value - tolerance <= found.low and found.high <= value + tolerance:
        return "within"
    return "outside" if found.low > value + tolerance or found.high < value - tolerance else "undecided"


def sign(differences: Sequence[float]) -> Literal[-1, 0, 1]:
    """Return on which side of 0 the mean is at the 5 % level (one-sided, by its 90 % interval); 0 where that is open."""
    found = mean_interval(differences, 0.9)
    return 1 if found.low > 0 else -1 if found.high < 0 else 0


def kendall(first: Sequence[float], second: Sequence[float]) -> float:
    """Return Kendall's tau-b of two rows of numbers in pairs, 1 for the same order, -1 for the opposite one; 0 where a row is constant."""
    pairs = [(i, j) for i in range(len(first)) for j in range(i)]
    signs = [(_sign(first[i] - first[j]), _sign(second[i] - second[j])) for i, j in pairs]
    untied = sqrt(sum(one != 0 for one, _ in signs) * sum(other != 0 for _, other in signs))
    return sum(one * other for one, other in signs) / untied if untied else 0.0


def slope(xs: Sequence[float], ys: Sequence[float]) -> float:
    """Return the slope of the line of least squares; 0 where all xs are the same."""
    middle = sum(xs) / len(xs)
    spread = sum((x - middle) ** 2 for x in xs)
    return sum((x - middle) * y for x, y in zip(xs, ys, strict=True)) / spread if spread else 0.0


def crossing(xs: Sequence[float], first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return where `first` comes to be below `second` for good, between two of the rising xs where it is so; the first x where it always is.

    None where it is not below at the last x.
    """
    gaps = [one - other for one, other in zip(first, second, strict=True)]
    if not gaps or gaps[-1] >= 0:
        return None
    place = max((place for place, gap in enumerate(gaps) if gap >= 0), default=None)
    if place is None:
        return xs[0]
    share = gaps[place] / (gaps[place] - gaps[place + 1])
    return xs[place] + share * (xs[place + 1] - xs[place])


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)
