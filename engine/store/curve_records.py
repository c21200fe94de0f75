"""Records of curves and of the machine: series, bins, heat maps and samples."""

import math
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Series:
    """Points of one metric of one rank in recording order; lists of equal length. NaN and infinity are kept in
    `values`.
    """

    metric: str
    rank: int | None
    ids: list[int]
    steps: list[int]
    times_s: list[float]
    passes: list[float | None]
    values: list[float]
    total: int
    """Number of stored points; greater than len(ids) if the series was down-sampled."""


@dataclass(frozen=True)
class Bin:
    """A range of consecutively recorded values."""

    count: int
    step: float
    """Mean step of the values, each counted per rank."""
    time_s: float
    mean: float
    squares: float
    """Sum of squared deviations from the mean."""
    low: float
    high: float
    running: float
    """Mean of the last hundred values up to the bin's end."""

    @property
    def deviation(self) -> float:
        """The standard deviation of the values."""
        return math.sqrt(self.squares / self.count)


@dataclass(frozen=True)
class Band:
    """Mean and spread of one metric, over all ranks in recording order; every bin except the last holds `width`
    values.
    """

    metric: str
    bins: tuple[Bin, ...]
    width: int
    recent: tuple[float, ...]
    """The last values, for the running mean of later values."""
    last_id: int

    @property
    def total(self) -> int:
        """Total number of values."""
        return sum(each.count for each in self.bins)


@dataclass(frozen=True)
class Heat:
    """Number of points of one metric, over all ranks, in each cell of time by value.

    Column c covers the time from c * `column_s` to (c + 1) * `column_s`; row r the values from r * `row` to (r + 1) *
    `row`.
    """

    metric: str
    column_s: float
    row: float
    counts: Mapping[tuple[int, int], int]
    """By (column, row); empty cells are absent. The sum is the number of finite points of the metric."""
    last_id: int
    """Newest counted point."""


@dataclass(frozen=True)
class MachineSample:
    """One measurement of the machine, such as ('host', 'cpu_percent', 83.0) or ('gpu0', 'memory_mb', 1200.0)."""

    at: str
    source: str
    name: str
    value: float
