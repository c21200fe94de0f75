"""What is read of curves and of the machine: series, bins, heat and samples, as records."""

import math
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Series:
    """Points of one metric of one rank in the order recorded; lists of equal length. A NaN or infinity is kept in
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
    """Points stored; more than len(ids) where the series was down-sampled."""


@dataclass(frozen=True)
class Bin:
    """A stretch of values that were recorded one after another."""

    count: int
    step: float
    """Mean of the steps that they were recorded at, each a rank's own count."""
    time_s: float
    mean: float
    squares: float
    """Sum of the squared distances from the mean."""
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
    """Mean and spread of one metric, over all ranks in the order recorded; every bin but the last holds
    `width` values.
    """

    metric: str
    bins: tuple[Bin, ...]
    width: int
    recent: tuple[float, ...]
    """The last values, for the running mean of what comes."""
    last_id: int

    @property
    def total(self) -> int:
        """How many values there are."""
        return sum(each.count for each in self.bins)


@dataclass(frozen=True)
class Heat:
    """How many points of one metric, over all ranks, lie in each cell of time by value.

    Column c is the time from c * `column_s` to (c + 1) * `column_s`; row r the values from r * `row` to (r + 1) *
    `row`.
    """

    metric: str
    column_s: float
    row: float
    counts: Mapping[tuple[int, int], int]
    """By (column, row); a cell without points is absent. They add up to every finite point of the metric."""
    last_id: int
    """The newest point counted."""


@dataclass(frozen=True)
class MachineSample:
    """One number about the machine at one moment, such as ('host', 'cpu_percent', 83.0) or ('gpu0', 'memory_mb',
    1200.0).
    """

    at: str
    source: str
    name: str
    value: float
