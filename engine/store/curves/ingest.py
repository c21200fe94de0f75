"""Writing points, each together with its metric's summary row; deleting what a run has recorded."""

import math
import sqlite3
from collections.abc import Iterable, Sequence

from engine.recorder import Point
from engine.store.connection import WriteConnection
from engine.store.schema.minmax_buckets import keep_corners

_SUMMARY = """
INSERT INTO metrics (run_id, rank, name, count, nonfinite, last, last_step, low, high, mean)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (run_id, name, coalesce(rank, -1)) DO UPDATE SET
    count = count + excluded.count,
    nonfinite = nonfinite + excluded.nonfinite,
    last = coalesce(excluded.last, last),
    last_step = coalesce(excluded.last_step, last_step),
    low = min(coalesce(low, excluded.low), coalesce(excluded.low, low)),
    high = max(coalesce(high, excluded.high), coalesce(excluded.high, high)),
    mean = CASE WHEN excluded.count = 0 THEN mean WHEN count = 0 THEN excluded.mean
        ELSE mean * (1.0 * count / (count + excluded.count)) + excluded.mean * (1.0 * excluded.count / (count +
            excluded.count)) END
RETURNING id, count + nonfinite
"""
CHUNK = 10_000
"""Rows deleted before a look at the portion's time."""
POINT_BYTES = 48
"""Bytes per point in the file, including its share of pages: measured over 20 million."""
_POINT = "INSERT INTO points (metric_id, id, step, time_s, passes, value, nonfinite) VALUES (?, ?, ?, ?, ?, ?, ?)"
_NEXT = "UPDATE runs SET last_point_id = last_point_id + ? WHERE id = ? RETURNING last_point_id"


def write_points(
    connection: sqlite3.Connection, run_id: int, recorded: Iterable[tuple[int | None, Sequence[Point]]]
) -> None:
    """Store points of some ranks (None: of the whole run), within a change."""
    recorded = list(recorded)
    if total := sum(len(points) for _, points in recorded):
        (highest,) = connection.execute(_NEXT, [total, run_id]).fetchone()
        add_points(connection, run_id, recorded, highest - total + 1)


def add_points(
    connection: sqlite3.Connection,
    run_id: int,
    recorded: Iterable[tuple[int | None, Sequence[Point]]],
    next_id: int,
) -> None:
    """Store points under ids from `next_id`, of a run that may not have its row yet."""
    by_metric: dict[tuple[int | None, str], list[Point]] = {}
    for rank, points in recorded:
        for point in points:
            by_metric.setdefault((rank, point.name), []).append(point)
    for (rank, name), points in by_metric.items():
        metric_id, count = connection.execute(_SUMMARY, [run_id, rank, name, *_summary(points)]).fetchone()
        rows = (
            (metric_id, id, int(p.step), p.time_s, p.passes, *_kept(p.value)) for id, p in enumerate(points, next_id)
        )
        connection.executemany(_POINT, rows)
        keep_corners(
            connection, metric_id, count - len(points), ((id, p.value) for id, p in enumerate(points, next_id))
        )
        next_id += len(points)


def delete_recorded(db: WriteConnection, run_id: int) -> None:
    """Delete the rows of a run that may be many, in portions; those that remain go with the run."""
    connection = db.connection
    with db.portions() as rest:

        def delete(table: str, key: str, owner: str, of: int) -> None:
            some = f"SELECT {key} FROM {table} WHERE {owner} = ?1 ORDER BY {key} LIMIT {CHUNK}"
            sql = f"DELETE FROM {table} WHERE {owner} = ?1 AND {key} IN ({some})"
            while connection.execute(sql, [of]).rowcount == CHUNK:
                rest()

        for (metric_id,) in connection.execute("SELECT id FROM metrics WHERE run_id = ?", [run_id]).fetchall():
            delete("buckets", "bucket", "metric_id", metric_id)
            delete("points", "id", "metric_id", metric_id)
            connection.execute("DELETE FROM metrics WHERE id = ?", [metric_id])
            rest()
        for name in ("spans", "machine_metrics", "trace_chunks"):
            delete(name, "id", "run_id", run_id)
            rest()


def _summary(
    points: Sequence[Point],
) -> tuple[int, int, float | None, int | None, float | None, float | None, float | None]:
    """Return count, nonfinite, last, last_step, low, high and mean of some points."""
    finite = [p for p in points if math.isfinite(p.value)]
    if not finite:
        return 0, len(points), None, None, None, None, None
    values = [p.value for p in finite]
    mean = sum(
        value / len(values) for value in values
    )  # never larger than the largest, where a plain sum could overflow
    return len(values), len(points) - len(values), values[-1], int(finite[-1].step), min(values), max(values), mean


def _kept(value: float) -> tuple[float | None, str | None]:
    """Return a value and its marker for the points table: SQLite would convert NaN to NULL."""
    if math.isfinite(value):
        return value, None
    return None, "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
