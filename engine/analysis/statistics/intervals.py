"""Means over seeds with intervals, and Holm's correction. Torch-free and pure."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf, sqrt
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

# ---- Runs resampled to common positions on an axis, from all their raw points --------------------------------------
# Pure, torch-free; the result depends only on the given runs.

MOST_CELLS = 400
"""Maximum number of positions; with more, neighbours are merged into bins."""
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class RunPoints:
    """All points of one rank of a run: equally long; `x` is ascending and finite, `y` may hold NaN or infinities."""

    x: Floats
    y: Floats


@dataclass(frozen=True)
class Aligned:
    """The values of each run (rows) at each position (columns); NaN if a run has none."""

    x: Floats
    values: Floats
    exact: bool
    """Whether each position was recorded; otherwise each is the middle of a bin."""
    cell: float
    """The width of a bin (its ratio on a log axis); 0 if exact."""
    members: NDArray[np.bool_]
    """Which rows have a finite value anywhere on the axis, also outside a requested range."""


def member(x: Floats, y: Floats, *, log: bool = False) -> RunPoints:
    """Return the points of one rank in ascending order of x, without those whose x is not finite (or, for a log axis,
    not positive).
    """
    there = np.isfinite(x) & (x > 0 if log else True)
    if not there.all():
        x, y = x[there], y[there]
    if x.size and (np.diff(x) < 0).any():
        order = np.argsort(x, kind="stable")
        x, y = x[order], y[order]
    return RunPoints(x, y)


def aligned(
    runs: Sequence[Sequence[RunPoints]],
    *,
    log: bool = False,
    most: int = MOST_CELLS,
    within: tuple[float, float] | None = None,
) -> Aligned:
    """Return runs, each given as the points of its ranks, at the union of all recorded x or, above `most`, in that
    many bins.

    Bins have equal widths (in log x for `log`). A rank's value at a position is the mean of its finite points there,
    and without a point the straight line between its two neighbouring points: it has no values before its first or
    after its last point. A run's value is the mean of its ranks', where all of them have one. `within` requests a
    range, which has its own positions (or bins).
    """
    ranks = [[each for each in run if np.isfinite(each.y).any()] for run in runs]
    members = np.array([bool(run) for run in ranks], dtype=np.bool_)
    there = [part for run in runs for each in run if (part := each if within is None else _cut(each, *within)).x.size]
    if not there:
        return Aligned(np.empty(0), np.empty((len(runs), 0)), True, 0.0, members)
    positions = _union(there, most)
    if positions is not None:
        lows, highs, centres, width = positions, positions, positions, 0.0
    else:
        low, high = min(float(each.x[0]) for each in there), max(float(each.x[-1]) for each in there)
        edges, width = edges_between(low, high, log, most)
        lows, highs, centres = edges[:-1], edges[1:], centres_of(edges, log)
    values = np.stack(
        [
            of_all([_at(each, lows, highs, centres, exact=positions is not None) for each in run], centres.size)
            for run in ranks
        ]
    )
    some = np.isfinite(values).any(axis=0) if positions is None else np.ones(len(centres), dtype=bool)
    return Aligned(centres[some], values[:, some], positions is not None, width, members)


def of_all(ranks: Sequence[Floats], positions: int) -> Floats:
    """Return the mean of rows where all are finite; NaN without rows."""
    found: Floats = np.mean(ranks, axis=0) if len(ranks) else np.full(positions, np.nan)
    return found


def between(x: Any, before: tuple[Any, Any], after: tuple[Any, Any]) -> Any:
    """Return the straight line between two points at x; NaN if one of the values is."""
    share = (x - before[0]) / (after[0] - before[0])
    return (1 - share) * before[1] + share * after[1]


def _cut(each: RunPoints, low: float, high: float) -> RunPoints:
    inside = slice(*np.searchsorted(each.x, [low]), *np.searchsorted(each.x, [high], side="right"))
    return RunPoints(each.x[inside], each.y[inside])


def _union(members: Sequence[RunPoints], most: int) -> Floats | None:
    """Return the x of all members, None above `most`."""
    found: list[Floats] = []
    for each in members:
        own: Floats = each.x[np.concatenate([[True], np.diff(each.x) > 0])]
        if own.size > most:
            return None
        found.append(own)
    union: Floats = np.unique(np.concatenate(found))
    return union if union.size <= most else None


def edges_between(low: float, high: float, log: bool, most: int) -> tuple[Floats, float]:
    """Return the edges of `most` bins and their width."""
    edges: Floats = np.geomspace(low, high, most + 1) if log else np.linspace(low, high, most + 1)
    return edges, float(edges[1] / edges[0] if log else edges[1] - edges[0])


def centres_of(edges: Floats, log: bool) -> Floats:
    """Return the middle of each bin, on a log axis the geometric one."""
    found: Floats = np.sqrt(edges[:-1] * edges[1:]) if log else (edges[:-1] + edges[1:]) / 2
    return found


def _at(each: RunPoints, lows: Floats, highs: Floats, centres: Floats, *, exact: bool) -> Floats:
    """Return a rank's value in each bin; a bin includes its lower edge and, for the last bin, its upper edge."""
    first = np.searchsorted(each.x, lows, side="left")
    last = np.searchsorted(each.x, highs, side="right" if exact else "left")
    if not exact:
        last[-1] = np.searchsorted(each.x, highs[-1], side="right")
    found: Floats = np.full(lows.size, np.nan)
    filled = last > first  # these bins hold all points from the first to the last, without gaps between them
    if filled.any():
        start, end = first[filled][0], last[filled][-1]  # the last sum of reduceat extends to the end
        inside = each.y[start:end]
        finite = np.isfinite(inside)
        sums = np.add.reduceat(np.where(finite, inside, 0.0), first[filled] - start)
        counts = np.add.reduceat(finite.astype(np.float64), first[filled] - start)
        found[filled] = np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)
    empty = (last == first) & (first > 0) & (first < each.x.size)
    left, right = first[empty] - 1, first[empty]
    y_left, y_right = (np.where(np.isfinite(each.y[at]), each.y[at], np.nan) for at in (left, right))
    found[empty] = between(centres[empty], (each.x[left], y_left), (each.x[right], y_right))
    return found


# ---- Means over seeds with intervals, and Holm's correction. Torch-free and pure -----------------------------------

# ------------------------------------------------------------------------------------------------------------------
# The confidence interval used by all pages and reports: of the mean, interquartile mean or median over seeds. Pure,
# torch-free. Coverage of the 95 % interval is at least 93 % for 3 to 20 normal values and for recorded results
# (tests/analysis/test_intervals.py): - mean of 3 to 9 values: Student's t; - mean of 10 or more: the bias-corrected
# and accelerated bootstrap (BCa, Efron 1987) at the expanded level of Hesterberg (2015), without which it covers
# the mean of 10 normal values 90 % of the time; each bound is Student's if that is wider, since BCa alone covers
# the mean of 10 recorded losses 92 % of the time; - interquartile mean: as the mean for 3 values, none of which it
# drops; BCa from 5 values on; - median: order statistics, with exact coverage, from 6 values on. It is less for the
# mean of few skewed values, which no interval can prevent; `LIMIT` says so wherever one is shown
# (docs/decisions/skewed-values.md). Medians, differences and ratios keep their 95 %. Otherwise there is no
# interval, and the bounds are the minimum and maximum. The same applies to identical values, which carry no
# information about their spread.

Statistic = Literal["mean", "median", "iqm"]
Method = Literal["student", "bca", "order", "fieller", "range"]
"""Method of the bounds: `fieller` (engine/analysis/scaling/speedup.py) for a ratio; `range` for minimum and maximum,
which is no interval.
"""
METHODS: Mapping[str, str] = {
    "": "",
    "sd": "± standard deviation",
    "se": "± standard error",
    "range": "min to max",
    "student": "95 % confidence interval",
    "bca": "95 % confidence interval (bootstrap)",
    "order": "95 % confidence interval (order statistics)",
}
"""How bounds are computed, and the bands that are no interval, as tables name them."""
STATISTICS: tuple[Statistic, ...] = get_args(Statistic)
LEVEL = 0.95
LIMIT = (
    "Over 3 to 8 skewed values, such as times with rare outliers, the 95 % interval of a mean covers about 90 % (80 to "
    "85 % if strongly skewed); that of a median covers at least 95 %."
)
"""What the intervals of pages, reports and the command line don't promise; tests/analysis/test_intervals.py."""
FEWEST: Mapping[str, int] = {"mean": 3, "iqm": 5, "median": 6}
"""Minimum number of values for an interval; the interquartile mean also has one for 3 values."""
_BOOTSTRAP_FROM = 10
RESAMPLES, SEED = 2_000, 0
CUT = 0.25
"""Share of values, rounded down, dropped at each end by the interquartile mean."""
EQUAL = 1e-9
"""Values closer than this share of the largest are equal: their difference is rounding."""
_AT_ONCE = 2_000_000
"""Maximum number of values per bootstrap step."""


@dataclass(frozen=True)
class Ends:
    """The lower and upper bound at each position, and their method."""

    low: Floats
    high: Floats
    method: NDArray[Any]
    """A method for each position."""


def central(values: Floats, statistic: Statistic) -> Floats:
    """Return a statistic over the first axis; the interquartile mean drops a quarter of the values, rounded down, at
    each end.
    """
    if statistic == "mean":
        found: Floats = values.mean(axis=0)
    elif statistic == "median":
        found = np.median(values, axis=0)
    else:
        cut = int(CUT * len(values))
        found = np.sort(values, axis=0)[cut : len(values) - cut].mean(axis=0)
    return found


def ends(values: Floats, statistic: Statistic = "mean", level: float = LEVEL) -> Ends:
    """Return the interval over the first axis of finite values [members, positions]; without an interval, minimum and
    maximum.
    """
    low, high = values.min(axis=0), values.max(axis=0)
    method = np.full(values.shape[1], "range", dtype=object)
    spread = high - low > EQUAL * np.maximum(abs(low), abs(high))
    name = _method(len(values), statistic, level)
    if name != "range" and spread.any():
        low[spread], high[spread] = {"student": _student, "bca": _bca, "order": _order}[name](
            values[:, spread], statistic, level
        )
        method[spread] = name
    return Ends(low, high, method)


@lru_cache(maxsize=1_024)
def student(level: float, freedom: float) -> float:
    """Return Student's two-sided quantile: the number of standard errors for a `level` (0 to 1)."""
    from scipy.special import stdtrit  # imported late to keep other pages fast

    return float(stdtrit(freedom, (1 + level) / 2))


def _method(count: int, statistic: Statistic, level: float) -> Method:
    if statistic == "median":
        return "range" if _rank(count, level) is None else "order"
    if count < FEWEST["mean"]:
        return "range"
    if statistic == "mean" or int(CUT * count) == 0:
        return "student" if count < _BOOTSTRAP_FROM else "bca"
    return "range" if count < FEWEST[statistic] else "bca"


def _student(values: Floats, statistic: Statistic, level: float) -> tuple[Floats, Floats]:
    centre, half = values.mean(axis=0), student(level, len(values) - 1) * values.std(axis=0, ddof=1) / sqrt(len(values))
    return centre - half, centre + half


def _bca(values: Floats, statistic: Statistic, level: float) -> tuple[Floats, Floats]:
    """Return the BCa interval at the expanded level; all positions use the same draws, so neighbours differ only by
    their values.
    """
    from scipy.special import ndtr, ndtri

    count, positions = values.shape
    drawn = np.random.default_rng(SEED).integers(0, count, (RESAMPLES, count))
    often = (drawn[:, :, None] == np.arange(count)).mean(axis=1)
    tail = sqrt(count / (count - 1)) * student(level, count - 1)
    low, high = np.empty(positions), np.empty(positions)
    each = max(1, _AT_ONCE // drawn.size)
    for start in range(0, positions, each):
        part = values[:, start : start + each]
        whole = central(part, statistic)
        found = often @ part if statistic == "mean" else central(part[drawn.T], statistic)
        nearly = EQUAL * (part.max(axis=0) - part.min(axis=0))
        bias = ndtri(((found < whole - nearly).mean(axis=0) + (found <= whole + nearly).mean(axis=0)) / 2)
        speed = _acceleration(part, statistic)
        ordered = np.sort(found, axis=0)
        for side, filled in ((-tail, low), (tail, high)):
            share: Floats = ndtr(bias + (bias + side) / (1 - speed * (bias + side)))
            filled[start : start + each] = _quantile(ordered, share)
    if statistic != "mean":
        return low, high
    least, most = _student(values, statistic, level)
    return np.minimum(low, least), np.maximum(high, most)


def _acceleration(values: Floats, statistic: Statistic) -> Floats:
    """Return the acceleration: the skewness of the statistic's jackknife values, divided by 6."""
    left_out = np.stack([central(np.delete(values, place, axis=0), statistic) for place in range(len(values))])
    apart = left_out.mean(axis=0) - left_out
    squares = (apart**2).sum(axis=0)
    found: Floats = np.divide((apart**3).sum(axis=0), 6 * squares**1.5, out=np.zeros(squares.shape), where=squares > 0)
    return found


def _quantile(ordered: Floats, share: Floats) -> Floats:
    """Return a quantile of each sorted column, with linear interpolation."""
    place = np.clip(np.nan_to_num(share, nan=0.5), 0, 1) * (len(ordered) - 1)
    below = np.minimum(place.astype(int), len(ordered) - 2)
    columns = np.arange(ordered.shape[1])
    first, second = ordered[below, columns], ordered[below + 1, columns]
    found: Floats = first + (place - below) * (second - first)
    return found


def _order(values: Floats, statistic: Statistic, level: float) -> tuple[Floats, Floats]:
    rank = _rank(len(values), level)
    assert rank is not None
    ordered = np.sort(values, axis=0)
    return ordered[rank], ordered[len(values) - 1 - rank]


@lru_cache(maxsize=1_024)
def _rank(count: int, level: float) -> int | None:
    """Return the number of values outside each end of the narrowest median interval with at least that coverage; None
    if there is none.
    """
    from scipy.special import bdtr

    outside = [rank for rank in range(count // 2) if 1 - 2 * float(bdtr(rank, count, 0.5)) >= level]
    return outside[-1] if outside else None


# ---- Intervals -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Interval:
    """A mean (or median) of `count` numbers with the interval of engine/analysis/statistics/intervals.py; with method
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


@dataclass(frozen=True)
class MeanDifference:
    """The mean of some values less that of others, with its standard error and its 95 % interval."""

    mean: float
    share: float | None
    """As a share of the other mean; None if that is 0."""
    error: float | None = None
    """Welch's standard error; None unless both sides have two values, which are not all equal."""
    interval: tuple[float, float] | None = None
    """Welch's t interval; None without an error, and with fewer than 3 values on a side: of 2 and 10 normal values it
    covers 90 %, of 3 and 10 at least 93 % (tests/analysis/test_intervals.py).
    """

    @property
    def sign(self) -> Literal[-1, 0, 1]:
        """On which side of 0 the interval lies; 0 if it includes 0, or without one."""
        low, high = self.interval or (0.0, 0.0)
        return 1 if low > 0 else -1 if high < 0 else 0


def difference_of_means(own: Sequence[float], others: Sequence[float]) -> MeanDifference:
    """Return the difference of the means of two independent samples (Welch 1947). Neither is empty."""
    means, sizes = [float(np.mean(each)) for each in (own, others)], [len(own), len(others)]
    apart = means[0] - means[1]
    if abs(apart) <= EQUAL * max(map(abs, means)):
        apart = 0.0
    found = MeanDifference(apart, apart / abs(means[1]) if means[1] else None)
    if min(sizes) < 2:
        return found
    parts = [float(np.var(each, ddof=1)) / len(each) for each in (own, others)]
    error = sqrt(sum(parts))
    if error <= EQUAL * max(map(abs, means)):
        return found
    freedom = error**4 / sum(part**2 / (size - 1) for part, size in zip(parts, sizes, strict=True))
    half = student(LEVEL, freedom) * error
    return replace(found, error=error, interval=(apart - half, apart + half) if min(sizes) >= FEWEST["mean"] else None)


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
