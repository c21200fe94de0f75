"""Fewer points of the same shape: first, last, least and greatest of each bucket; a pure function with no chance in it."""

import math
from dataclasses import replace

from engine.store.records import Series


def thin(series: Series, max_points: int) -> Series:
    """Return at most `max_points` (at least 4) of the series' points, in order; `total` still says how many there are.

    Buckets hold a power of two of points each, so that the points kept of a full bucket stay when more are appended,
    until there are twice as many. Values that are not finite are never least or greatest, but may be first or last.
    """
    count = len(series.ids)
    if count <= max_points:
        return series
    size = 1
    while 4 * math.ceil(count / size) > max(4, max_points):
        size *= 2
    kept = [index for start in range(0, count, size) for index in _corners(series.values, start, min(start + size, count))]
    return replace(
        series,
        ids=[series.ids[index] for index in kept],
        steps=[series.steps[index] for index in kept],
        times_s=[series.times_s[index] for index in kept],
        passes=[series.passes[index] for index in kept],
        values=[series.values[index] for index in kept],
    )


def _corners(values: list[float], start: int, stop: int) -> list[int]:
    """Return the indices of first, last, least and greatest of one bucket, in order."""
    finite = [index for index in range(start, stop) if math.isfinite(values[index])]
    extremes = {min(finite, key=values.__getitem__), max(finite, key=values.__getitem__)} if finite else set()
    return sorted({start, stop - 1} | extremes)
