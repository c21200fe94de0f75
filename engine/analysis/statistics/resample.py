"""Runs resampled to common positions on an axis, from all their raw points. Pure, torch-free; the result depends only
on the given runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MOST_CELLS = 400
"""Maximum number of positions; with more, neighbours are merged into bins."""
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class RunPoints:
    """All points of one run: equally long; `x` is ascending and finite, `y` may hold NaN or infinities."""

    x: Floats
    y: Floats


@dataclass(frozen=True)
class Aligned:
    """The values of each member (rows) at each position (columns); NaN if a member has none."""

    x: Floats
    values: Floats
    exact: bool
    """Whether each position was recorded; otherwise each is the middle of a bin."""
    cell: float
    """The width of a bin (its ratio on a log axis); 0 if exact."""


def member(x: Floats, y: Floats, *, log: bool = False) -> RunPoints:
    """Return points as a member: in ascending order of x, without those whose x is not finite (or, for a log axis, not
    positive).
    """
    there = np.isfinite(x) & (x > 0 if log else True)
    if not there.all():
        x, y = x[there], y[there]
    if x.size and (np.diff(x) < 0).any():
        order = np.argsort(x, kind="stable")
        x, y = x[order], y[order]
    return RunPoints(x, y)


def aligned(
    members: Sequence[RunPoints],
    *,
    log: bool = False,
    most: int = MOST_CELLS,
    within: tuple[float, float] | None = None,
) -> Aligned:
    """Return the members at the union of all recorded x or, above `most`, in that many bins.

    Bins have equal widths (in log x for `log`). A member's value at a position is the mean of its finite points there.
    Without a point, its last earlier point is used, within its own range only: a run has no values before its first or
    after its last point. `within` requests a range, which has its own positions (or bins).
    """
    there = [part for each in members if (part := each if within is None else _cut(each, *within)).x.size]
    nothing: Floats = np.empty(0)
    if not there:
        return Aligned(nothing, np.empty((len(members), 0)), True, 0.0)
    positions = _union(there, most)
    if positions is not None:
        lows, highs, centres, width = positions, positions, positions, 0.0
    else:
        low, high = min(float(each.x[0]) for each in there), max(float(each.x[-1]) for each in there)
        edges, width = edges_between(low, high, log, most)
        lows, highs = edges[:-1], edges[1:]
        centres = np.sqrt(lows * highs) if log else (lows + highs) / 2
    values = np.stack([_at(each, lows, highs, exact=positions is not None) for each in members])
    some = np.isfinite(values).any(axis=0) if positions is None else np.ones(len(centres), dtype=bool)
    return Aligned(centres[some], values[:, some], positions is not None, width)


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


def _at(each: RunPoints, lows: Floats, highs: Floats, *, exact: bool) -> Floats:
    """Return a member's value in each bin; a bin includes its lower edge and, for the last bin, its upper edge."""
    first = np.searchsorted(each.x, lows, side="left")
    last = np.searchsorted(each.x, highs, side="right" if exact else "left")
    if not exact:
        last[-1] = np.searchsorted(each.x, highs[-1], side="right")
    found: Floats = np.full(lows.size, np.nan)
    filled = last > first  # these bins hold all points, without gaps between them
    if filled.any():
        inside = each.y[: last[filled][-1]]  # the last sum of reduceat extends to the end
        finite = np.isfinite(inside)
        sums = np.add.reduceat(np.where(finite, inside, 0.0), first[filled])
        counts = np.add.reduceat(finite.astype(np.float64), first[filled])
        found[filled] = np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)
    between = (last == first) & (first > 0) & (first < each.x.size)
    held = each.y[first[between] - 1]
    found[between] = np.where(np.isfinite(held), held, np.nan)
    return found
