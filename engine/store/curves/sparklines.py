"""The course of one metric of many runs in a few values each, for the small charts of lists."""

import json
from collections.abc import Sequence

from engine.store.connection import Connection
from engine.store.schema.minmax_buckets import SIZE

VALUES = 24
"""Maximum number of values of a sparkline."""
_METRICS = (
    "SELECT id, run_id, count - thinned AS total, thinned FROM metrics WHERE run_id IN (SELECT value FROM json_each(?))"
    " AND name = ? AND count > 0 ORDER BY run_id, coalesce(rank, -1)"
)
_ALL = "SELECT value FROM points WHERE metric_id = ? AND value IS NOT NULL ORDER BY id"
_ENDS = (
    "SELECT points.value FROM buckets JOIN points ON points.metric_id = buckets.metric_id AND points.id = "
    "buckets.last_id WHERE buckets.metric_id = ? AND buckets.bucket % ? = 0 AND points.value IS NOT NULL "
    "ORDER BY buckets.bucket"
)


class SparklineReader:
    """Queries of sparklines."""

    def __init__(self, db: Connection) -> None:
        self.db = db

    def of(self, run_ids: Sequence[int], metric: str) -> dict[int, list[float]]:
        """Return at most `VALUES` finite values of a metric, evenly spaced in recording order, for each run that has
        it: the whole run's, otherwise those of its lowest rank. Reads at most a few hundred points per run.
        """
        found: dict[int, list[float]] = {}
        with self.db.snapshot():
            for row in self.db.rows(_METRICS, [json.dumps(list(run_ids)), metric]):
                if row["run_id"] not in found:
                    found[row["run_id"]] = _spaced(self._values(row["id"], row["total"], bool(row["thinned"])))
        return {run_id: values for run_id, values in found.items() if values}

    def _values(self, metric_id: int, total: int, thinned: bool) -> list[float]:
        if thinned or total <= 2 * SIZE:
            return [value for (value,) in self.db.tuples(_ALL, [metric_id])]
        every = max(1, total // SIZE // (2 * VALUES))
        return [value for (value,) in self.db.tuples(_ENDS, [metric_id, every])]


def _spaced(values: Sequence[float]) -> list[float]:
    if len(values) <= VALUES:
        return list(values)
    last = len(values) - 1
    return [values[round(place * last / (VALUES - 1))] for place in range(VALUES)]
