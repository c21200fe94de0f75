"""Sum a long curve in cells along one of its axes within the store: the result is cells, not points.

The axis of such a curve never decreases, so a cell is a range of ids. Its first point is found in the bucket that
contains its edge. Curves whose axis goes back have no marks.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from engine.store.connection import Connection
from engine.store.curves.series import Axis, extents
from engine.store.schema.minmax_buckets import SIZE

_METRIC = (
    "SELECT id, count + nonfinite AS total, thinned FROM metrics WHERE run_id = ? AND name = ? AND coalesce(rank, "
    "-1) = ?"
)
_MARKS = (
    "SELECT b.first_id, p.{axis} FROM buckets AS b JOIN points AS p ON p.metric_id = b.metric_id AND p.id = "
    "b.first_id WHERE b.metric_id = ? ORDER BY b.bucket"
)
_LAST = "SELECT id, {axis} FROM points WHERE metric_id = ? ORDER BY id DESC LIMIT 1"
_POSITIVE = "SELECT {axis} FROM points WHERE metric_id = ? AND {axis} > 0 ORDER BY id LIMIT 1"
_POSITIONS = "SELECT count(*) FROM (SELECT DISTINCT {axis} FROM points WHERE metric_id = ? AND {axis} >= ? LIMIT ?)"
_FIRST_FROM = "SELECT id FROM points WHERE metric_id = ? AND id >= ? AND {axis} >= ? ORDER BY id LIMIT 1"
_SUM = "SELECT sum(value), count(value), count(*) FROM points WHERE metric_id = ? AND id >= ? AND id < ?"
_BEFORE = "SELECT {axis}, value FROM points WHERE metric_id = ? AND id < ? ORDER BY id DESC LIMIT 1"
_AFTER = "SELECT {axis}, value FROM points WHERE metric_id = ? AND id >= ? ORDER BY id LIMIT 1"


@dataclass(frozen=True)
class Marks:
    """Starts of a curve's buckets along an axis, and the curve's end; ascending."""

    metric_id: int
    ids: tuple[int, ...]
    at: tuple[float, ...]
    last_id: int
    end: float
    positive: float | None
    """Position of the first point above 0."""


@dataclass(frozen=True)
class BinnedCell:
    """A curve's values in one cell; an empty cell has the points before and after it, if any: their positions and
    values (None: not finite).
    """

    total: float
    """Sum of the finite values."""
    finite: int
    points: int
    before: tuple[float, float | None] | None = None
    after: tuple[float, float | None] | None = None


def marks(reader: Connection, run_id: int, metric: str, rank: int | None, axis: Axis) -> Marks | None:
    """Return the marks of a curve; None if it is too short, thinned, or its axis is missing or decreases."""
    found = reader.row(_METRIC, [run_id, metric, -1 if rank is None else rank])
    if found is None or found["thinned"]:
        return None
    rows = [tuple(row) for row in reader.rows(_MARKS.format(axis=axis), [found["id"]])]
    last = reader.row(_LAST.format(axis=axis), [found["id"]])
    if last is None or len(rows) != -(-found["total"] // SIZE):
        return None
    at = [row[1] for row in rows] + [last[1]]
    if any(each is None for each in at):
        return None
    bounds = zip(extents(reader, found["id"], axis), pairwise(at), strict=True)
    if any(each.low < start or each.high > end for each, (start, end) in bounds):
        return None
    positive = reader.row(_POSITIVE.format(axis=axis), [found["id"]])
    return Marks(
        found["id"],
        tuple(row[0] for row in rows),
        tuple(map(float, at[:-1])),
        last[0],
        float(last[1]),
        float(positive[0]) if positive else None,
    )


def positions(reader: Connection, known: Marks, axis: Axis, low: float, most: int) -> int:
    """Return the number of distinct positions of a curve from `low`, at most `most`."""
    return int(reader.rows(_POSITIONS.format(axis=axis), [known.metric_id, low, most])[0][0])


def cells(reader: Connection, known: Marks, axis: Axis, edges: Sequence[float]) -> list[BinnedCell]:
    """Return a curve's cells between ascending edges; a cell includes its low edge and, if it is the last one, its high
    edge.
    """
    connection = reader.connection
    with reader.as_store_errors():
        starts: list[int] = []
        bucket = 0
        for edge in edges[:-1]:
            while bucket + 1 < len(known.at) and known.at[bucket + 1] < edge:
                bucket += 1
            first = connection.execute(
                _FIRST_FROM.format(axis=axis), [known.metric_id, known.ids[bucket], edge]
            ).fetchone()
            starts.append(first[0] if first else known.last_id + 1)
        found = []
        for start, end in pairwise([*starts, known.last_id + 1]):
            total, finite, points = connection.execute(_SUM, [known.metric_id, start, end]).fetchone()
            if points:
                found.append(BinnedCell(total or 0.0, finite, points))
                continue
            ends = (
                connection.execute(sql.format(axis=axis), [known.metric_id, start]).fetchone()
                for sql in (_BEFORE, _AFTER)
            )
            found.append(BinnedCell(0.0, 0, 0, *(None if end is None else (float(end[0]), end[1]) for end in ends)))
        return found
