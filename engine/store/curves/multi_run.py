"""Queries of several runs at once: list entries, environments, and columns of points as arrays."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from engine.store.connection import Connection
from engine.store.curves.binned_sums import BinnedCell, Marks, cells, marks, positions
from engine.store.curves.series import Axis

if TYPE_CHECKING:
    import numpy as np

Column = Literal["step", "time_s", "passes", "value"]
_AMONG = "IN (SELECT value FROM json_each(?))"
_RECORDED = (
    f"SELECT run_id, name, rank, count + nonfinite - thinned, nonfinite FROM metrics WHERE run_id {_AMONG} AND "
    f"name {_AMONG}"
    " ORDER BY run_id, name, coalesce(rank, -1)"
)
_COLUMNS = (
    "SELECT {} FROM points WHERE metric_id = (SELECT id FROM metrics WHERE run_id = ? AND name = ? AND "
    "coalesce(rank, -1) = ?) ORDER BY id"
)
_INFINITE = "9e999"
"""Placeholder for missing or non-finite numbers; SQLite reads it as infinity."""
_MAY_LACK = ("passes", "value")


@dataclass(frozen=True)
class RecordedMetric:
    """A metric with points of a rank (None: the whole run) of a run: their number, and the number of non-finite
    ones.
    """

    run_id: int
    metric: str
    rank: int | None
    total: int
    nonfinite: int


class MultiRunReader:
    """Queries of the Compare page."""

    def __init__(self, db: Connection) -> None:
        self.db = db

    def environments(self, run_ids: Sequence[int]) -> dict[int, dict[str, Any]]:
        """Return the environment of each run, empty if its worker has not written it yet."""
        rows = self.db.rows(f"SELECT id, environment FROM runs WHERE id {_AMONG}", [json.dumps(list(run_ids))])
        return {row["id"]: json.loads(row["environment"]) for row in rows}

    def recorded(self, run_ids: Sequence[int], metrics: Sequence[str]) -> list[RecordedMetric]:
        """Return the ranks of the runs with points of the metrics, by run, metric and rank, the whole run's first."""
        return [
            RecordedMetric(*row)
            for row in self.db.rows(_RECORDED, [json.dumps(list(run_ids)), json.dumps(list(metrics))])
        ]

    def marks(self, run_id: int, metric: str, rank: int | None, axis: Axis) -> Marks | None:
        """Return the starts of a long curve's buckets along an axis; None if unknown."""
        return marks(self.db, run_id, metric, rank, axis)

    def positions(self, known: Marks, axis: Axis, low: float, most: int) -> int:
        """Return the number of distinct positions of a long curve from `low`, at most `most`."""
        return positions(self.db, known, axis, low, most)

    def cells(self, known: Marks, axis: Axis, edges: Sequence[float]) -> list[BinnedCell]:
        """Return a long curve summed in the cells between ascending edges."""
        return cells(self.db, known, axis, edges)

    def columns(
        self, run_id: int, metric: str, rank: int | None, names: Sequence[Column]
    ) -> "dict[Column, np.ndarray[Any, Any]]":
        """Return complete columns of one metric's points in recording order, as arrays of float64; empty without
        points.

        Non-finite values and unknown passes are infinity.
        """
        import numpy as np  # it takes 0.1 s to import; the command line and the runner need none of it

        kinds = np.dtype([(name, np.float64) for name in names])
        with self.db.as_store_errors():
            cursor = self.db.connection.cursor()
            cursor.row_factory = None
            asked = ", ".join(f"coalesce({name}, {_INFINITE})" if name in _MAY_LACK else name for name in names)
            rows = np.fromiter(
                cursor.execute(_COLUMNS.format(asked), [run_id, metric, -1 if rank is None else rank]), dtype=kinds
            )
        return {name: np.ascontiguousarray(rows[name]) for name in names}
