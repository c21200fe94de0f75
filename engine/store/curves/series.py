"""Curves: all points of some metrics, their new points, or a down-sampled range."""

import json
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Literal

from engine.store.connection import Connection, Row
from engine.store.curve_records import Band, Heat, Series
from engine.store.curves.episode_bins import count_band
from engine.store.curves.heatmap import count_heat
from engine.store.schema.minmax_buckets import CORNERS, SIZE, bucket_size, joined

_POINTS = "SELECT id, step, time_s, passes, coalesce(value, nonfinite) FROM points WHERE metric_id = ?"
_LIGHT = "SELECT id, coalesce(value, nonfinite), {} FROM points WHERE metric_id = ?"
_BETWEEN = "AND id BETWEEN ? AND ? ORDER BY id"
_METRICS = (
    "SELECT id, name, rank, count + nonfinite - thinned AS total, thinned FROM metrics WHERE run_id = ? AND name "
    "IN ({}) ORDER BY 2, coalesce(rank, -1)"
)
_CORNERS = (
    "SELECT bucket, first_id, last_id, low, low_id, high, high_id, nan_id FROM buckets WHERE metric_id = ? AND "
    "bucket BETWEEN ? AND ? ORDER BY bucket"
)
_EDGE = (
    "SELECT b.first_id, b.last_id, coalesce(p.{}, 0) FROM buckets AS b"
    " JOIN points AS p ON p.metric_id = b.metric_id AND p.id = b.first_id WHERE b.metric_id = ? AND b.bucket = ?"
)
_COLUMNS = {"step": 1, "time_s": 2, "passes": 3}
_ALL_IDS = 2**62

Axis = Literal["step", "time_s", "passes"]
Rows = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Stretch:
    """A range of a curve along one of its axes, including both ends."""

    axis: Axis
    low: float
    high: float


@dataclass(frozen=True)
class _Part:
    """Consecutive complete buckets of a metric: their first and last id and bucket."""

    first_id: int
    last_id: int
    first_bucket: int
    last_bucket: int


class CurveReader:
    """Queries of charts about one run."""

    def __init__(self, db: Connection) -> None:
        self.db = db

    def series(
        self,
        run_id: int,
        metrics: Sequence[str],
        *,
        after_id: int = 0,
        max_points: int | None = None,
        within: Stretch | None = None,
    ) -> list[Series]:
        """Return the points of some metrics with ids above `after_id`, optionally at most `max_points` (at least 5) per
        series.

        `within` selects a range, with one neighbour at each side, down-sampled separately, so that a zoom shows more
        detail. Ids increase through the run's points, so the highest id in any series is the `after_id` of the next
        query. A series without new points is included, empty. The whole run's series come before its ranks'.
        """
        with self.db.snapshot():
            found = self.db.rows(_METRICS.format(", ".join("?" * len(metrics))), [run_id, *metrics])
            return [_series(row, self._rows(run_id, row, after_id, max_points, within)) for row in found]

    def _rows(self, run_id: int, metric: Row, after_id: int, max_points: int | None, within: Stretch | None) -> Rows:
        part = _Part(after_id + 1, _ALL_IDS, 0, _ALL_IDS)
        if max_points and metric["total"] <= max_points and not within:
            return self._from_points(metric["id"], part, None, None)
        # What gc thinned has no corners any more, and so few points that all can be read.
        bucketed = not metric["thinned"] and not after_id and metric["total"] > SIZE
        if within and bucketed:
            part = self._part(metric["id"], -(-metric["total"] // SIZE), within)
        rows = None
        if max_points and bucketed:
            count = min(metric["total"], (part.last_bucket - part.first_bucket + 1) * SIZE)
            rows = self._from_corners(metric["id"], part, count, max_points)
        if rows is None and max_points and bucketed and not within:
            rows = self._from_all(run_id, metric, max_points)
        if rows is None:
            rows = self._from_points(metric["id"], part, max_points, within)
        return _trimmed(rows, within, _COLUMNS[within.axis]) if within else rows

    def _part(self, metric_id: int, buckets: int, within: Stretch) -> _Part:
        """Return the buckets that contain a range, found by bisection: a curve's axis never decreases."""

        def edge(bucket: int) -> tuple[Any, ...]:
            return self.db.tuples(_EDGE.format(within.axis), [metric_id, bucket])[0]

        def begins_at(bucket: int) -> float:
            return float(edge(bucket)[2])

        first = max(0, bisect_left(range(buckets), within.low, key=begins_at) - 1)
        last = max(first, min(buckets - 1, bisect_right(range(buckets), within.high, key=begins_at)))
        return _Part(edge(first)[0], edge(last)[1], first, last)

    def _from_corners(self, metric_id: int, part: _Part, count: int, max_points: int) -> Rows | None:
        """Return the down-sampled points of a long part, from its buckets' extremes; None if it is so short that its
        points must be read.
        """
        if bucket_size(count, max(1, max_points // (CORNERS + 1))) < SIZE:
            return None
        corners = self.db.tuples(_CORNERS, [metric_id, part.first_bucket, part.last_bucket])
        size = bucket_size(count, max(1, max_points // (CORNERS + any(corner[-1] is not None for corner in corners))))
        if size < SIZE:
            return None
        ids = {
            id
            for first, last, _, low, _, high, nan in joined(corners, size // SIZE)
            for id in (first, last, low, high, nan)
            if id is not None
        }
        return self._of_ids(metric_id, ids)

    def _from_all(self, run_id: int, metric: Row, max_points: int) -> Rows:
        """Return the down-sampled points of a complete curve, using the cache of recently read points."""
        from engine.store.curves import (
            downsample,  # NumPy takes 0.1 s to import; the command line and the runner need none of it
            series_cache,
        )

        with self.db.told():
            cursor = self.db.connection.cursor()
            cursor.row_factory = None
            curve = (str(self.db.home.path), run_id, metric["name"], metric["rank"])
            line = series_cache.line(cursor, curve, metric["id"], metric["total"])
        return self._of_ids(metric["id"], line.ids[downsample.kept(line.values, max_points)].tolist())

    def _from_points(self, metric_id: int, part: _Part, max_points: int | None, within: Stretch | None) -> Rows:
        """Return the rows of a part, down-sampled if necessary; of a long one only ids and values are read
        completely.
        """
        between = [metric_id, part.first_id, part.last_id]
        if max_points is None:
            return self.db.tuples(f"{_POINTS} {_BETWEEN}", between)
        light = self.db.tuples(f"{_LIGHT.format(within.axis if within else 'step')} {_BETWEEN}", between)
        inside = _trimmed(light, within, 2) if within else light
        if len(inside) <= max_points:
            ends = [inside[0][0], inside[-1][0]] if inside else [0, 0]
            return self.db.tuples(f"{_POINTS} {_BETWEEN}", [metric_id, *ends])
        from engine.store.curves.downsample import (
            kept,  # NumPy takes 0.1 s to import; the command line and the runner need none of it
        )

        return self._of_ids(
            metric_id, {light[position][0] for position in kept([float(row[1]) for row in light], max_points)}
        )

    def _of_ids(self, metric_id: int, ids: Collection[int]) -> Rows:
        return self.db.tuples(
            f"{_POINTS} AND id IN (SELECT value FROM json_each(?)) ORDER BY id", [metric_id, json.dumps(sorted(ids))]
        )

    def heat(self, run_id: int, metric: str, before: Heat | None = None) -> Heat | None:
        """Return the heat map of a metric over all ranks; None if the run has no points of it.

        `before`, an earlier result, avoids counting its points again.
        """
        return count_heat(self.db, run_id, metric, before)

    def band(self, run_id: int, metric: str, before: Band | None = None) -> Band | None:
        """Return mean and spread of a per-episode metric over all ranks; None if the run has no points of it.

        `before`, an earlier result, avoids reading its points again.
        """
        return count_band(self.db, run_id, metric, before)


def _series(metric: Row, rows: Rows) -> Series:
    ids, steps, times, passes, values = map(list, zip(*rows, strict=True)) if rows else ([], [], [], [], [])
    found = [float(value) for value in values]  # 'nan', 'inf' and '-inf' come as texts
    return Series(metric["name"], metric["rank"], ids, steps, times, passes, found, metric["total"])


def _trimmed(rows: Rows, within: Stretch, column: int) -> Rows:
    """Return the rows of a range of one column, with one neighbour at each side for the connecting lines."""
    at = list(accumulate((row[column] or 0.0 for row in rows), max))
    return rows[max(0, bisect_left(at, within.low) - 1) : bisect_right(at, within.high) + 1]
