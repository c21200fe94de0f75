"""Runs that differ only in seed, as one number with its spread. Torch-free."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from engine.analysis.statistics.intervals import FEWEST, Floats, Statistic, central, ends
from engine.store.records import ENDED, RunRow, is_complete


@dataclass(frozen=True)
class Group:
    """One number of several runs of one combination."""

    key: tuple[Hashable, ...]
    """The values of the varied fields; the first is the x-axis, the others identify the line."""
    values: Mapping[int, float]
    """The number of each run by run id; never empty."""

    @property
    def mean(self) -> float:
        return sum(self.values.values()) / len(self.values)

    @property
    def median(self) -> float:
        return median(self.values.values())

    @property
    def median_interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the median, from order statistics; None below 6 values."""
        if len(self.values) < FEWEST["median"]:
            return None
        found = ends(np.array(list(self.values.values()))[:, None], "median")
        return float(found.low[0]), float(found.high[0])

    @property
    def precision(self) -> float | None:
        """The greatest distance of that interval's bounds from the median, as a share of the median."""
        if self.median_interval is None or not self.median:
            return None
        low, high = self.median_interval
        return max(self.median - low, high - self.median) / abs(self.median)

    @property
    def low(self) -> float:
        return min(self.values.values())

    @property
    def high(self) -> float:
        return max(self.values.values())


def grouped(found: Iterable[tuple[tuple[Hashable, ...], int, float]]) -> list[Group]:
    """Return triples of key, run id and number as one group per key, in order of first appearance."""
    by_key: dict[tuple[Hashable, ...], dict[int, float]] = {}
    for key, run_id, value in found:
        by_key.setdefault(key, {})[run_id] = value
    return [Group(key, values) for key, values in by_key.items()]


def counted(runs: Sequence[RunRow]) -> NDArray[np.bool_]:
    """Return which runs count in the curve of their group: all, but those still running only until one is complete.

    A run that has just started would cut the line of complete ones down to its own few points.
    """
    some = any(map(is_complete, runs))
    return np.array([not some or run.status in ENDED for run in runs], dtype=np.bool_)


# ------------------------------------------------------------------------------------------------------------------
# Groups of runs as a line with a band: mean, median or interquartile mean, and the spread of the members. Pure,
# torch-free. Statistic, standard deviation and standard error equal scipy's (tests/analysis/test_bands.py), with n
# - 1 in the denominator; the confidence interval is that of engine/analysis/statistics/intervals.py.

Spread = Literal["sd", "se", "ci", "range", "none"]
SPREADS: tuple[Spread, ...] = get_args(Spread)
FEWEST_IN_BAND = 3
"""Minimum number of members for a band other than minimum to maximum."""


@dataclass(frozen=True)
class BandLine:
    """A group at each position: its statistic, its band (NaN with fewer than two members), and the number of members:
    all of them, or 0 where one has no value and the line has a gap.
    """

    centre: Floats
    low: Floats
    high: Floats
    count: NDArray[np.int64]
    method: NDArray[Any]
    """Method of the band: sd, se, range, or the interval's own method; empty without a band."""


def line(values: Floats, statistic: Statistic = "mean", spread: Spread = "sd") -> BandLine:
    """Return the line of values [members, positions] where every member has a finite value: with members that come
    and go, it would jump by their differences.
    """
    at = np.isfinite(values).all(axis=0) & (len(values) > 0)
    centre, low, high = (np.full(values.shape[1], np.nan) for _ in range(3))
    method = np.full(values.shape[1], "", dtype=object)
    if at.any():
        centre[at] = central(values[:, at], statistic)
        if len(values) > 1 and spread != "none":
            low[at], high[at], method[at] = _band(values[:, at], statistic, spread)
    return BandLine(centre, low, high, np.where(at, len(values), 0), method)


def _band(values: Floats, statistic: Statistic, spread: Spread) -> tuple[Floats, Floats, NDArray[Any] | str]:
    """Return the lower and upper bounds over the first axis, which has at least two finite members, and their
    method.
    """
    if spread == "range" or len(values) < FEWEST_IN_BAND:
        return values.min(axis=0), values.max(axis=0), "range"
    if spread == "ci":
        found = ends(values, statistic)
        return found.low, found.high, found.method
    centre, apart = central(values, statistic), values.std(axis=0, ddof=1)
    if spread == "se":
        apart = apart / np.sqrt(len(values))
    return centre - apart, centre + apart, spread


# ---- Whole numbers counted by value, as in histograms: mean and percentiles ----------------------------------------
# Pure, torch-free.

Counts = Mapping[int, int]
"""Number of occurrences of each value."""


def mean(counts: Counts) -> float:
    """Return the mean of all counted numbers; there is at least one."""
    return sum(value * count for value, count in counts.items()) / sum(counts.values())


def percentile(counts: Counts, percent: int) -> int:
    """Return the smallest number that at least this percentage of all counted numbers does not exceed."""
    left = -(-percent * sum(counts.values()) // 100)
    for value in sorted(counts):
        left -= counts[value]
        if left <= 0:
            return value
    return max(counts)


def together(counts: Iterable[Counts]) -> dict[int, int]:
    """Return the sum of several counts."""
    found: Counter[int] = Counter()
    for one in counts:
        found.update(one)
    return dict(sorted(found.items()))
