"""A resumed run copies its parent's curves up to the checkpoint, so that readers see one continuous run."""

import json
import sqlite3
from collections.abc import Mapping
from typing import Any

from engine.histograms import HISTOGRAMS
from engine.metrics import METRICS
from engine.store.schema.minmax_buckets import rebuild

_ENDS = ", ".join(f"'{name}'" for name, known in METRICS.items() if not known.live)
_LAST_STEP = """json_extract(:steps, '$."' || old.rank || '"')"""
_WITHIN = (
    f"old.run_id = :parent AND old.name NOT IN ({_ENDS}) AND CASE"
    f" WHEN {_LAST_STEP} IS NOT NULL THEN p.step <= {_LAST_STEP}"
    " ELSE p.time_s <= :time_s AND (old.rank IS NULL OR p.step <= :step) END"
)
"""Condition on the points that the checkpoint covers. The last step of a rank that it names decides, as the rank may
have recorded it after the checkpoint's time. A metric of the whole run counts other steps, so only time decides. A
run's final numbers are excluded.
"""

_STATEMENTS = (
    f"""INSERT INTO metrics (run_id, rank, name, count, nonfinite, low, high)
        SELECT :child, old.rank, old.name, count(p.value), count(p.nonfinite), min(p.value), max(p.value)
        FROM metrics AS old JOIN points AS p ON p.metric_id = old.id WHERE {_WITHIN} GROUP BY old.id""",
    f"""INSERT INTO points (metric_id, id, step, time_s, passes, value, nonfinite)
        SELECT new.id, p.id, p.step, p.time_s, p.passes, p.value, p.nonfinite
        FROM metrics AS old JOIN metrics AS new ON new.run_id = :child AND new.name = old.name AND new.rank IS old.rank
        JOIN points AS p ON p.metric_id = old.id WHERE {_WITHIN}""",
    """UPDATE metrics SET
        mean = (SELECT sum(p.value / metrics.count) FROM points AS p WHERE p.metric_id = metrics.id),
        (last, last_step) = (SELECT p.value, p.step FROM points AS p WHERE p.metric_id = metrics.id
            AND p.value IS NOT NULL ORDER BY p.id DESC LIMIT 1)
        WHERE run_id = :child""",
    """UPDATE runs SET last_point_id = (
        SELECT coalesce(max(p.id), 0) FROM points AS p JOIN metrics ON metrics.id = p.metric_id
            WHERE metrics.run_id = :child) WHERE id = :child""",
)
_HISTOGRAM = """INSERT INTO histograms (run_id, rank, name, bucket, count)
    SELECT :child, m.rank, :histogram, CAST(p.value AS INTEGER), count(*) FROM metrics AS m JOIN points AS p
        ON p.metric_id = m.id
    WHERE m.run_id = :child AND m.name = :metric AND p.value IS NOT NULL
        AND m.rank IN (SELECT rank FROM histograms WHERE run_id = :parent AND name = :histogram) GROUP BY m.rank, 4"""


def take_over(
    connection: sqlite3.Connection, child: int, parent: int, *, step: int, time_s: float, steps: Mapping[int, int]
) -> float:
    """Copy the parent's points up to a step and a time into a run without points, with their summaries; of ranks in
    `steps`, those up to that step. Return the training time (s) so far: no copied point is later.

    Points keep their ids, which increase through a run. A histogram can't be cut at a time, so histograms whose values
    a metric records one by one are recounted from it.
    """
    bounds: dict[str, Any] = {
        "child": child,
        "parent": parent,
        "step": step,
        "time_s": time_s,
        "steps": json.dumps(steps),
    }
    for statement in _STATEMENTS:
        connection.execute(statement, bounds)
    for (metric_id,) in connection.execute("SELECT id FROM metrics WHERE run_id = ?", [child]).fetchall():
        rebuild(connection, metric_id)
    for known in HISTOGRAMS.values():
        if known.metric:
            connection.execute(
                _HISTOGRAM, {"child": child, "parent": parent, "histogram": known.name, "metric": known.metric}
            )
    (last_s,) = connection.execute(
        "SELECT max(p.time_s) FROM points AS p JOIN metrics ON metrics.id = p.metric_id WHERE metrics.run_id = ?",
        [child],
    ).fetchone()
    return max(time_s, last_s or 0.0)
