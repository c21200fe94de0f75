"""Groups of runs as a line with a band: mean, median or interquartile mean, and the spread of the members. Pure,
torch-free.

Statistic, standard deviation and standard error equal scipy's (tests/analysis/test_bands.py), with n - 1 in the
denominator; the confidence interval is that of engine/analysis/statistics/confidence.py.
"""

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from engine.analysis.statistics.confidence import Statistic, central, ends
from engine.analysis.statistics.resample import Floats

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
