"""Extremes ("corners") of every 256 consecutive points of a metric, stored as its points arrive, so that a curve of any
length is drawn from few rows.

The corners of a bucket of 2^k times as many points are among those of the small ones: merging them gives the result of
reading all points.
"""

import math
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby

SIZE = 256
CORNERS = 4
"""Points kept per bucket: first, last, minimum, maximum; plus the first NaN if there is one."""

Corners = tuple[int, int, float | None, int | None, float | None, int | None, int | None]
"""For consecutive points: the ids of the first and last, the minimum and its id, the maximum and its id, the id of the
first NaN.
"""

_KEEP = """
INSERT INTO buckets (metric_id, bucket, first_id, last_id, low, low_id, high, high_id, nan_id)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (metric_id, bucket) DO UPDATE SET
    last_id = excluded.last_id,
    low_id = CASE WHEN low IS NULL OR excluded.low < low THEN excluded.low_id ELSE low_id END,
    low = CASE WHEN low IS NULL OR excluded.low < low THEN excluded.low ELSE low END,
    high_id = CASE WHEN high IS NULL OR excluded.high > high THEN excluded.high_id ELSE high_id END,
    high = CASE WHEN high IS NULL OR excluded.high > high THEN excluded.high ELSE high END,
    nan_id = coalesce(nan_id, excluded.nan_id)
"""
_PAGE = 100 * SIZE
_VALUES = f"SELECT id, coalesce(value, nonfinite) FROM points WHERE metric_id = ? AND id > ? ORDER BY id LIMIT {_PAGE}"


def keep_corners(
    connection: sqlite3.Connection, metric_id: int, before: int, points: Iterable[tuple[int, float]]
) -> None:
    """Store the corners of new points, given as (id, value) in order, of a metric that had `before` points, within a
    change.
    """
    placed = enumerate(points, before)
    cut = groupby(placed, key=lambda each: each[0] // SIZE)
    connection.executemany(
        _KEEP, [(metric_id, bucket, *_corners([point for _, point in inside])) for bucket, inside in cut]
    )


def rebuild(connection: sqlite3.Connection, metric_id: int, rest: Callable[[], None] = lambda: None) -> None:
    """Recompute a metric's corners from its points, within a change or in portions (`WriteConnection.portions`)."""
    connection.execute("DELETE FROM buckets WHERE metric_id = ?", [metric_id])
    before, last = 0, -1
    while page := connection.execute(_VALUES, [metric_id, last]).fetchall():
        keep_corners(connection, metric_id, before, ((row[0], float(row[1])) for row in page))
        before, last = before + len(page), page[-1][0]
        rest()


def _corners(points: Sequence[tuple[int, float]]) -> Corners:
    numbers = [(value, id) for id, value in points if not math.isnan(value)]
    low, low_id = min(numbers, default=(None, None))
    high, high_id = max(numbers, key=lambda each: (each[0], -each[1]), default=(None, None))
    nan_id = next((id for id, value in points if math.isnan(value)), None)
    return points[0][0], points[-1][0], low, low_id, high, high_id, nan_id


def bucket_size(count: int, buckets: int) -> int:
    """Return the smallest power of two that divides `count` values into at most `buckets` buckets."""
    size = 1
    while -(-count // size) > buckets:
        size *= 2
    return size


def joined(rows: Iterable[tuple[int, *Corners]], times: int) -> Iterator[Corners]:
    """Yield the corners of buckets of `times` as many points; `rows` are (bucket, corners) in order."""
    held: Corners | None = None
    number = -1
    for row in rows:
        corners = row[1:]
        if held is None or row[0] // times != number:
            if held is not None:
                yield held
            held, number = corners, row[0] // times
        else:
            held = _both(held, corners)
    if held is not None:
        yield held


def _both(one: Corners, other: Corners) -> Corners:
    """Return the merged corners of two adjacent buckets; of equal values the earlier one's."""
    first, _, low, low_id, high, high_id, nan_id = one
    _, last, other_low, other_low_id, other_high, other_high_id, other_nan = other
    if low is None or (other_low is not None and other_low < low):
        low, low_id = other_low, other_low_id
    if high is None or (other_high is not None and other_high > high):
        high, high_id = other_high, other_high_id
    return first, last, low, low_id, high, high_id, other_nan if nan_id is None else nan_id
