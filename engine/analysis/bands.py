"""Groups of runs as one line with a band: mean, median or interquartile mean, and how far its members lie apart. Pure, torch-free.

Each number equals what scipy gives for the same values (tests/analysis/test_bands.py): sd and standard error with n - 1 in the denominator, the
bootstrap by percentiles, its draws the same each time.
"""

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from engine.analysis.aligning import Floats

Statistic = Literal["mean", "median", "iqm"]
Spread = Literal["sd", "se", "boot", "range", "none"]
STATISTICS: tuple[Statistic, ...] = get_args(Statistic)
SPREADS: tuple[Spread, ...] = get_args(Spread)
RESAMPLES, SEED, LEVEL = 1_000, 0, 95.0
_AT_ONCE = 2_000_000
"""Numbers that one step of the bootstrap holds at a time."""


@dataclass(frozen=True)
class Line:
    """A group at each position: its statistic, the band round it (NaN where fewer than two members are there), and how many are."""

    centre: Floats
    low: Floats
    high: Floats
    count: "np.ndarray[Any, np.dtype[np.int64]]"


def line(values: Floats, statistic: Statistic = "mean", spread: Spread = "sd") -> Line:
    """Return the line of values [members, positions]; what is not finite is not there."""
    there = np.isfinite(values)
    count = there.sum(axis=0)
    centre, low, high = (np.full(values.shape[1], np.nan) for _ in range(3))
    # Positions at which the same members are there are worked out together.
    for mask in np.unique(there, axis=1).T if values.size else ():
        if not mask.any():
            continue
        at = (there == mask[:, None]).all(axis=0)
        part = values[np.ix_(mask, at)]
        centre[at] = central(part, statistic)
        if mask.sum() > 1 and spread != "none":
            low[at], high[at] = band(part, statistic, spread)
    return Line(centre, low, high, count)


def central(values: Floats, statistic: Statistic) -> Floats:
    """Return a statistic over the first axis; the interquartile mean leaves out a quarter of the values, rounded down, at either end."""
    if statistic == "mean":
        found: Floats = values.mean(axis=0)
    elif statistic == "median":
        found = np.median(values, axis=0)
    else:
        cut = int(0.25 * len(values))
        found = np.sort(values, axis=0)[cut : len(values) - cut].mean(axis=0)
    return found


def band(values: Floats, statistic: Statistic, spread: Spread) -> tuple[Floats, Floats]:
    """Return the lower and upper end over the first axis, which holds at least two finite members.

    sd and se lie on both sides of the statistic; boot is the percentile interval of the statistic over resampled members, at 95 %.
    """
    if spread == "range":
        return values.min(axis=0), values.max(axis=0)
    if spread == "boot":
        return _bootstrap(values, statistic)
    centre, apart = central(values, statistic), values.std(axis=0, ddof=1)
    if spread == "se":
        apart = apart / np.sqrt(len(values))
    return centre - apart, centre + apart


def _bootstrap(values: Floats, statistic: Statistic) -> tuple[Floats, Floats]:
    members, positions = values.shape
    drawn = np.random.default_rng(SEED).integers(0, members, (RESAMPLES, members))
    low, high = np.empty(positions), np.empty(positions)
    ends = [50 - LEVEL / 2, 50 + LEVEL / 2]
    each = max(1, _AT_ONCE // drawn.size)
    for start in range(0, positions, each):
        part = values[:, start : start + each]
        found = central(part[drawn.T], statistic)  # [members, resamples, positions] to [resamples, positions]
        low[start : start + each], high[start : start + each] = np.percentile(found, ends, axis=0)
    return low, high
