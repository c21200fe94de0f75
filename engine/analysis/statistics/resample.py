"""Runs resampled to common positions on an axis, from all their raw points. Pure, torch-free; the result depends only
on the given runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
