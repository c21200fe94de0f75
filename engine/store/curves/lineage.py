"""A resumed run copies its parent's curves up to the checkpoint, so that readers see one continuous run."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from sqlite3 import Connection as Sqlite
from typing import Any

from engine.histograms import HISTOGRAMS
from engine.metrics import METRICS
from engine.store.connection import Row, WriteConnection
from engine.store.curves.arrivals import arriving_curves
from engine.store.curves.ingest import CHUNK
from engine.store.schema.minmax_buckets import rebuild

_ENDS = ", ".join(f"'{name}'" for name, known in METRICS.items() if not known.live)
_OLD = f"SELECT id, rank, name FROM metrics WHERE run_id = ? AND name NOT IN ({_ENDS})"
_NEW = "INSERT INTO metrics (run_id, rank, name, count, nonfinite) VALUES (?, ?, ?, 0, 0)"
_UNTIL = f"SELECT max(id) FROM (SELECT id FROM points WHERE metric_id = ? AND id > ? ORDER BY id LIMIT {CHUNK})"
_COPY = """INSERT INTO points (metric_id, id, step, time_s, passes, value, nonfinite)
    SELECT :new, id, step, time_s, passes, value, nonfinite FROM points
        WHERE metric_id = :old AND id > :after AND id <= :until AND CASE WHEN :last_step IS NOT NULL
            THEN step <= :last_step ELSE time_s <= :time_s AND (:whole OR step <= :step) END"""
"""The points that the checkpoint covers. The last step of a rank that it names decides, as the rank may have recorded
it after the checkpoint's time; not of rank 0, which saved it and may have tested at that step since. A metric of the
whole run counts other steps, so only time decides.
"""
_SUMMARY = """SELECT :id AS id, count(value) AS count, count(nonfinite) AS nonfinite, min(value) AS low,
    max(value) AS high, max(id) AS highest, max(time_s) AS time_s,
    (SELECT sum(value / :count) FROM points WHERE metric_id = :id) AS mean
    FROM points WHERE metric_id = :id"""
_FINITE = "SELECT count(value) FROM points WHERE metric_id = ?"
_SHOW = """UPDATE metrics SET run_id = :child,
    (count, nonfinite, low, high, mean) = (:count, :nonfinite, :low, :high, :mean),
    (last, last_step) = (SELECT value, step FROM points WHERE metric_id = :id AND value IS NOT NULL
        ORDER BY id DESC LIMIT 1)
    WHERE id = :id"""
_HISTOGRAM = """SELECT m.rank, CAST(p.value AS INTEGER) AS bucket, count(*) AS count FROM metrics AS m
    JOIN points AS p ON p.metric_id = m.id
    WHERE m.run_id = :child AND m.name = :metric AND p.value IS NOT NULL
        AND m.rank IN (SELECT rank FROM histograms WHERE run_id = :parent AND name = :histogram) GROUP BY m.rank, 2"""


@contextmanager
def take_over(
    db: WriteConnection, child: int, parent: int, *, step: int, time_s: float, steps: Mapping[int, int]
) -> Iterator[tuple[Sqlite, float]]:
    """Copy the parent's points up to a step and a time into a run without points, with their summaries; of ranks in
    `steps`, those up to that step. The block is in the transaction that makes them visible, and gets the training time
    (s) so far: no copied point is later.

    Points keep their ids, which increase through a run. A histogram can't be cut at a time, so histograms whose values
    a metric records one by one are recounted from it.
    """
    with arriving_curves(db, child) as here:
        made = here.ids.start
        with here.portions() as rest:
            for old in db.connection.execute(_OLD, [parent]).fetchall():
                bounds = {"step": step, "time_s": time_s, "last_step": steps.get(old["rank"]) if old["rank"] else None}
                _copy(db.connection, made, old, bounds, rest)
        summaries = [_summary(db, row[0]) for row in db.rows("SELECT id FROM metrics WHERE run_id = ?", [made])]
        counts = [
            (child, row["rank"], known.name, row["bucket"], row["count"])
            for known in HISTOGRAMS.values()
            for row in db.rows(
                _HISTOGRAM, {"child": made, "parent": parent, "metric": known.metric, "histogram": known.name}
            )
        ]
        with here.last() as connection:
            connection.executemany(_SHOW, [{**summary, "child": child} for summary in summaries])
            connection.executemany(
                "INSERT INTO histograms (run_id, rank, name, bucket, count) VALUES (?, ?, ?, ?, ?)", counts
            )
            last = max((summary["highest"] for summary in summaries), default=0)
            connection.execute("UPDATE runs SET last_point_id = ? WHERE id = ?", [last, child])
            yield connection, max([time_s, *(summary["time_s"] for summary in summaries)])


def _copy(connection: Sqlite, child: int, old: Row, bounds: dict[str, Any], rest: Callable[[], None]) -> None:
    """Copy one curve; a curve without points up to the checkpoint is left out."""
    new = connection.execute(_NEW, [child, old["rank"], old["name"]]).lastrowid
    after, copied = -1, 0
    while (until := connection.execute(_UNTIL, [old["id"], after]).fetchone()[0]) is not None:
        ids = {"new": new, "old": old["id"], "after": after, "until": until, "whole": old["rank"] is None}
        copied += connection.execute(_COPY, bounds | ids).rowcount
        after = until
        rest()
    if copied:
        rebuild(connection, new or 0, rest)
    else:
        connection.execute("DELETE FROM metrics WHERE id = ?", [new])


def _summary(db: WriteConnection, metric_id: int) -> dict[str, Any]:
    (finite,) = db.rows(_FINITE, [metric_id])[0]
    return dict(db.rows(_SUMMARY, {"id": metric_id, "count": finite})[0])
