"""Runs that differ only in seed, as one number with its spread. Torch-free."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
from numpy.typing import NDArray

from engine.analysis.statistics.confidence import FEWEST, ends
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
