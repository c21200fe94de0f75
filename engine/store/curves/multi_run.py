"""What is asked of several runs at once: their list entries, their environments, and whole columns of
points as arrays.
"""

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
"""SQLite reads it as infinity: what stands for a number that is not there, or not finite."""
_MAY_LACK = ("passes", "value")


@dataclass(frozen=True)
class RecordedMetric:
    """That a rank (None: the whole run) of a run has points of a metric, how many, and how many of them are
    not finite.
    """

    run_id: int
    metric: str
    rank: int | None
    total: int
    nonfinite: int


class MultiRunReader:
    """The questions of the page that compares runs."""

    def __init__(self, db: Connection) -> None:
        self.db = db

    def environments(self, run_ids: Sequence[int]) -> dict[int, dict[str, Any]]:
        """Return the environment of each run, empty where its worker has not written it yet."""
        rows = self.db.rows(f"SELECT id, environment FROM runs WHERE id {_AMONG}", [json.dumps(list(run_ids))])
        return {row["id"]: json.loads(row["environment"]) for row in rows}

    def recorded(self, run_ids: Sequence[int], metrics: Sequence[str]) -> list[RecordedMetric]:
        """Return which ranks of the runs have points of the metrics, by run, metric and rank, the whole run's first."""
        return [
            RecordedMetric(*row)
            for row in self.db.rows(_RECORDED, [json.dumps(list(run_ids)), json.dumps(list(metrics))])
        ]

    def marks(self, run_id: int, metric: str, rank: int | None, axis: Axis) -> Marks | None:
        """Return where a long curve's buckets begin along an axis, None where that can't be told."""
        return marks(self.db, run_id, metric, rank, axis)

    def positions(self, known: Marks, axis: Axis, low: float, most: int) -> int:
        """Return at how many places from `low` on a long curve has points, `most` where there are more."""
        return positions(self.db, known, axis, low, most)

    def cells(self, known: Marks, axis: Axis, edges: Sequence[float]) -> list[BinnedCell]:
        """Return a long curve added up in the cells between ascending edges."""
        return cells(self.db, known, axis, edges)

    def columns(
        self, run_id: int, metric: str, rank: int | None, names: Sequence[Column]
    ) -> "dict[Column, np.ndarray[Any, Any]]":
        """Return whole columns of one metric's points in the order recorded, as arrays of float64; empty ones where
        there are none.

        A value that is NaN or infinite, and passes that are not known, come as infinity.
        """
        import numpy as np  # it takes 0.1 s to import; the command line and the runner need none of it

        kinds = np.dtype([(name, np.float64) for name in names])
        with self.db.told():
            cursor = self.db.connection.cursor()
            cursor.row_factory = None
            asked = ", ".join(f"coalesce({name}, {_INFINITE})" if name in _MAY_LACK else name for name in names)
            rows = np.fromiter(
                cursor.execute(_COLUMNS.format(asked), [run_id, metric, -1 if rank is None else rank]), dtype=kinds
            )
        return {name: np.ascontiguousarray(rows[name]) for name in names}
