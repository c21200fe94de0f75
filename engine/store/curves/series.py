"""Curves: all points of some metrics, their new points, or a down-sampled range."""

import json
import threading
from collections import OrderedDict
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from engine.store.connection import Connection, Row
from engine.store.curve_records import Band, Heat, Series
from engine.store.curves.heatmap import count_band, count_heat
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
_EXTENTS = (
    "SELECT b.first_id, b.last_id, min(p.{0}), max(p.{0}), count(p.{0}) < count(*), count(*) FROM buckets AS b JOIN "
    "points AS p ON p.metric_id = b.metric_id AND p.id BETWEEN b.first_id AND b.last_id WHERE b.metric_id = ? AND "
    "b.bucket >= ? GROUP BY b.bucket ORDER BY b.bucket"
)
_COLUMNS = {"step": 1, "time_s": 2, "passes": 3}
_ALL_IDS = 2**62
_KEPT_EXTENTS = 100_000
"""Maximum number of buckets whose extents are cached."""

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
        parts = [_Part(after_id + 1, _ALL_IDS, 0, _ALL_IDS)]
        if max_points and metric["total"] <= max_points and not within:
            return self._from_points(metric["id"], parts, None, None)
        # What gc thinned has no corners any more, and so few points that all can be read.
        bucketed = not metric["thinned"] and not after_id and metric["total"] > SIZE
        if within and bucketed:
            parts = _parts(extents(self.db, metric["id"], within.axis), within)
        rows = None
        if max_points and bucketed:
            count = min(metric["total"], sum(part.last_bucket - part.first_bucket + 1 for part in parts) * SIZE)
            rows = self._from_corners(metric["id"], parts, count, max_points)
        if rows is None and max_points and bucketed and not within:
            rows = self._from_all(run_id, metric, max_points)
        if rows is None:
            rows = self._from_points(metric["id"], parts, max_points, within)
        return _trimmed(rows, within, _COLUMNS[within.axis]) if within else rows

    def _from_corners(self, metric_id: int, parts: Sequence[_Part], count: int, max_points: int) -> Rows | None:
        """Return the down-sampled points of long parts, from their buckets' extremes; None if they are so short that
        their points must be read.
        """
        if bucket_size(count, max(1, max_points // (CORNERS + 1))) < SIZE:
            return None
        corners = [
            row for part in parts for row in self.db.tuples(_CORNERS, [metric_id, part.first_bucket, part.last_bucket])
        ]
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
        from engine.store.curves import downsample

        with self.db.as_store_errors():
            cursor = self.db.connection.cursor()
            cursor.row_factory = None
            curve = (str(self.db.home.path), run_id, metric["name"], metric["rank"])
            line = downsample.line(cursor, curve, metric["id"], metric["total"])
        return self._of_ids(metric["id"], line.ids[downsample.kept(line.values, max_points)].tolist())

    def _from_points(
        self, metric_id: int, parts: Sequence[_Part], max_points: int | None, within: Stretch | None
    ) -> Rows:
        """Return the rows of some parts, down-sampled if necessary; of long ones only ids and values are read
        completely.
        """

        def read(sql: str) -> Rows:
            bounds = ([metric_id, part.first_id, part.last_id] for part in parts)
            return [row for each in bounds for row in self.db.tuples(f"{sql} {_BETWEEN}", each)]

        if max_points is None:
            return read(_POINTS)
        light = read(_LIGHT.format(within.axis if within else "step"))
        inside = _trimmed(light, within, 2) if within else light
        if len(inside) <= max_points:
            return self._of_ids(metric_id, [row[0] for row in inside])
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
    """Return the rows of a range of one column, with their neighbours for the connecting lines."""
    last, sides = 0.0, []
    for row in rows:
        last = last if row[column] is None else row[column]
        sides.append(_side(last, last, within))
    return [rows[place] for place in _selected(sides)]


def _side(low: float, high: float, within: Stretch) -> int:
    """Return -1 below a range, 1 above it, 0 inside or across one of its ends."""
    return -1 if high < within.low else 1 if low > within.high else 0


def _selected(sides: Sequence[int]) -> list[int]:
    """Return the places inside a range, and those from which a line leads into or across it; if all are on one side,
    the end of the curve on the range's side. The axis may go back.
    """
    changes = [False, *(one != other for one, other in pairwise(sides)), False]
    found = [place for place, side in enumerate(sides) if side == 0 or changes[place] or changes[place + 1]]
    return found or ([len(sides) - 1 if sides[-1] < 0 else 0] if sides else [])


@dataclass(frozen=True)
class AxisExtent:
    """The ids of a bucket's first and last point, and the lowest and highest position of its points on an axis."""

    first_id: int
    last_id: int
    low: float
    high: float


_extents: OrderedDict[Hashable, list[tuple[Any, ...]]] = OrderedDict()
_lock = threading.Lock()


def extents(db: Connection, metric_id: int, axis: Axis) -> list[AxisExtent]:
    """Return the extents of a metric's buckets on an axis. Those of complete buckets are cached: only new ones are
    read.

    A point without a position is at the one before it, or at 0.
    """
    sql, key = _EXTENTS.format(axis), (str(db.home.path), metric_id, axis)
    with _lock:
        known = _extents.get(key, [])
    rows = db.tuples(sql, [metric_id, max(0, len(known) - 1)])
    if known and rows[:1] != known[-1:]:  # another store in the same place
        known, rows = [], db.tuples(sql, [metric_id, 0])
    rows = known[:-1] + rows
    with _lock:
        _extents[key] = [row for row in rows if row[-1] == SIZE]
        _extents.move_to_end(key)
        while len(_extents) > 1 and sum(map(len, _extents.values())) > _KEPT_EXTENTS:
            _extents.popitem(last=False)
    found: list[AxisExtent] = []
    for first_id, last_id, low, high, lacks_some, _ in rows:
        ends = [each for each in (low, high) if each is not None]
        if lacks_some:
            ends += [found[-1].low, found[-1].high] if found else [0.0]
        found.append(AxisExtent(first_id, last_id, float(min(ends)), float(max(ends))))
    return found


def _parts(buckets: Sequence[AxisExtent], within: Stretch) -> list[_Part]:
    """Return the buckets that contain a range, with their neighbours: several parts if the axis goes back."""
    places = _selected([_side(each.low, each.high, within) for each in buckets])
    firsts = [place for before, place in pairwise([-2, *places]) if place > before + 1]
    lasts = [place for place, after in pairwise([*places, len(buckets) + 1]) if after > place + 1]
    return [
        _Part(buckets[first].first_id, buckets[last].last_id, first, last)
        for first, last in zip(firsts, lasts, strict=True)
    ]


# ---- Every point of a run in pages, for streams of any length ------------------------------------------------------

_SERIES = (
    "SELECT metrics.id, name, metrics.rank, coalesce(role, '') AS role FROM metrics"
    " LEFT JOIN ranks ON ranks.run_id = metrics.run_id AND ranks.rank = metrics.rank WHERE metrics.run_id = ? "
    "ORDER BY name, coalesce(metrics.rank, -1)"
)
_PAGE = (
    "SELECT id, step, time_s, passes, coalesce(value, nonfinite) FROM points WHERE metric_id = ? AND id > ? ORDER "
    "BY id LIMIT ?"
)

_LATEST = (
    "SELECT id, step, time_s, passes, coalesce(value, nonfinite) FROM points WHERE metric_id = ? ORDER BY id DESC "
    "LIMIT ?"
)


@dataclass(frozen=True)
class Recording:
    """One metric recorded by one rank (None: the whole run)."""

    id: int
    metric: str
    rank: int | None
    role: str


@dataclass(frozen=True)
class PointRow:
    """One point; `id` increases along a recording."""

    id: int
    step: int
    time_s: float
    passes: float | None
    value: float


class PointReader:
    """Queries of all points."""

    def __init__(self, db: Connection) -> None:
        self.db = db

    def recordings(self, run_id: int, metrics: Sequence[str] = ()) -> list[Recording]:
        """Return the recordings of a run by metric and rank, optionally of some metrics only."""
        return [Recording(*row) for row in self.db.rows(_SERIES, [run_id]) if not metrics or row["name"] in metrics]

    def page(self, recording_id: int, *, after: int = 0, limit: int = 10_000) -> list[PointRow]:
        """Return up to `limit` points of a recording after the point `after`; none at its end."""
        return self._rows(_PAGE, [recording_id, after, limit])

    def latest(self, recording_id: int, limit: int) -> list[PointRow]:
        """Return up to `limit` of the newest points of a recording, the oldest of them first."""
        return self._rows(_LATEST, [recording_id, limit])[::-1]

    def _rows(self, sql: str, values: Sequence[int]) -> list[PointRow]:
        return [
            PointRow(id, step, time_s, passes, float(value))
            for id, step, time_s, passes, value in self.db.rows(sql, values)
        ]
