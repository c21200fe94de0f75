"""Queries of many runs at once: list entries, columns of points, studies, and small charts."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from engine.store.connection import Connection
from engine.store.curves.series import Axis, extents
from engine.store.schema.minmax_buckets import SIZE

if TYPE_CHECKING:
    import numpy as np


# ---- Queries of several runs at once: list entries, environments, and columns of points as arrays ------------------

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


# Long curves are summed in cells along one of their axes within the store: the result is cells, not points. The axis
# of such a curve never decreases, so a cell is a range of ids, and its first point is found in the bucket that contains
# its edge. Curves whose axis goes back have no marks.

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
        return self.db.records(RecordedMetric, _RECORDED, [json.dumps(list(run_ids)), json.dumps(list(metrics))])

    def last_steps(self, run_ids: Sequence[int]) -> dict[int, int]:
        """Return the greatest last step of each run's metrics; runs without one are omitted."""
        sql = f"SELECT run_id, max(last_step) AS step FROM metrics WHERE run_id IN {_RUNS} GROUP BY run_id"
        rows = self.db.rows(sql, [json.dumps(list(run_ids))])
        return {row["run_id"]: row["step"] for row in rows if row["step"] is not None}

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

    def marks(self, run_id: int, metric: str, rank: int | None, axis: Axis) -> Marks | None:
        """Return the starts of a long curve's buckets along an axis; None if it is too short, thinned, or its axis is
        missing or decreases.
        """
        found = self.db.row(_METRIC, [run_id, metric, -1 if rank is None else rank])
        if found is None or found["thinned"]:
            return None
        rows = [tuple(row) for row in self.db.rows(_MARKS.format(axis=axis), [found["id"]])]
        last = self.db.row(_LAST.format(axis=axis), [found["id"]])
        if last is None or len(rows) != -(-found["total"] // SIZE):
            return None
        at = [row[1] for row in rows] + [last[1]]
        if any(each is None for each in at):
            return None
        bounds = zip(extents(self.db, found["id"], axis), pairwise(at), strict=True)
        if any(each.low < start or each.high > end for each, (start, end) in bounds):
            return None
        positive = self.db.row(_POSITIVE.format(axis=axis), [found["id"]])
        return Marks(
            found["id"],
            tuple(row[0] for row in rows),
            tuple(map(float, at[:-1])),
            last[0],
            float(last[1]),
            float(positive[0]) if positive else None,
        )

    def positions(self, known: Marks, axis: Axis, low: float, most: int) -> int:
        """Return the number of distinct positions of a long curve from `low`, at most `most`."""
        return self.db.number(_POSITIONS.format(axis=axis), [known.metric_id, low, most])

    def cells(self, known: Marks, axis: Axis, edges: Sequence[float]) -> list[BinnedCell]:
        """Return a long curve summed in the cells between ascending edges; a cell includes its low edge and, if it is
        the last one, its high edge.
        """
        connection = self.db.connection
        with self.db.as_store_errors():
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


# ---- Queries of many runs at once: hardware, time per phase, and test results --------------------------------------
# Each is one short read.

MOST_POINTS = 20_000
"""Maximum number of points of `tested`; tests record far fewer."""
_RUNS = "(SELECT value FROM json_each(?))"


@dataclass(frozen=True)
class Surroundings:
    """Hardware and amount of work of one run."""

    host: str
    cpu: str
    cores: int
    """Cores of the machine; 0 if the run did not report them."""
    gpus: tuple[str, ...]
    """GPUs of the machine, by name."""
    commit: str
    threads_per_rank: int
    devices: tuple[tuple[str, str], ...]
    """Role and device of each rank, in rank order."""
    work: int
    """Units of work done, over all ranks; 0 if none were counted."""
    unit: str
    """Unit of work, such as samples."""


@dataclass(frozen=True)
class Tested:
    """One value of a metric during a run."""

    run_id: int
    name: str
    step: int
    time_s: float
    passes: float | None
    value: float


class StudyReader:
    """Queries of many runs."""

    def __init__(self, db: Connection) -> None:
        self.db = db

    def surroundings(self, run_ids: Collection[int]) -> dict[int, Surroundings]:
        """Return the hardware of each run; deleted runs are omitted."""
        sql = (
            "SELECT runs.id, runs.environment, runs.threads_per_rank, coalesce(progress.done, 0) AS done, "
            "coalesce(progress.unit, '') AS unit,"
            " (SELECT json_group_array(json_array(role, device)) FROM (SELECT role, device FROM ranks WHERE "
            "run_id = runs.id ORDER BY rank)) AS devices"
            f" FROM runs LEFT JOIN progress ON progress.run_id = runs.id WHERE runs.id IN {_RUNS}"
        )
        found = {}
        for row in self.db.rows(sql, [json.dumps(list(run_ids))]):
            about = json.loads(row["environment"])
            found[int(row["id"])] = Surroundings(
                host=str(about.get("host", "")),
                cpu=str(about.get("cpu", "")),
                cores=int(about.get("cores", 0)),
                gpus=tuple(about.get("gpus", ())),
                commit=str(about.get("git_commit", "")),
                threads_per_rank=row["threads_per_rank"],
                devices=tuple((role, device) for role, device in json.loads(row["devices"])),
                work=row["done"],
                unit=row["unit"],
            )
        return found

    def phases_of(self, run_ids: Collection[int]) -> dict[int, dict[str, dict[str, float]]]:
        """Return the seconds of each run by role and phase, roles in rank order."""
        sql = (
            "SELECT phases.run_id, coalesce(ranks.role, 'rank ' || phases.rank), phases.name, phases.seconds "
            "FROM phases"
            " LEFT JOIN ranks ON ranks.run_id = phases.run_id AND ranks.rank = phases.rank"
            f" WHERE phases.run_id IN {_RUNS} ORDER BY phases.run_id, phases.rank, phases.name"
        )
        found: dict[int, dict[str, dict[str, float]]] = {}
        for run_id, role, name, seconds in self.db.rows(sql, [json.dumps(list(run_ids))]):
            found.setdefault(run_id, {}).setdefault(role, {})[name] = seconds
        return found

    def histograms_of(self, run_ids: Collection[int], name: str) -> dict[int, dict[str, dict[int, int]]]:
        """Return the counts of one histogram by run, role (in rank order) and bucket; runs without it are omitted."""
        sql = (
            "SELECT histograms.run_id, coalesce(ranks.role, 'rank ' || histograms.rank), histograms.bucket, "
            "histograms.count FROM histograms"
            " LEFT JOIN ranks ON ranks.run_id = histograms.run_id AND ranks.rank = histograms.rank"
            f" WHERE histograms.run_id IN {_RUNS} AND histograms.name = ? ORDER BY histograms.run_id, "
            "histograms.rank, histograms.bucket"
        )
        found: dict[int, dict[str, dict[int, int]]] = {}
        for run_id, role, bucket, count in self.db.rows(sql, [json.dumps(list(run_ids)), name]):
            found.setdefault(run_id, {}).setdefault(role, {})[bucket] = count
        return found

    def tested(self, run_ids: Collection[int], names: Collection[str]) -> list[Tested]:
        """Return the finite values of metrics that are recorded occasionally, such as test/accuracy, in recording
        order; at most MOST_POINTS.
        """
        sql = (
            "SELECT metrics.run_id, metrics.name, points.step, points.time_s, points.passes, points.value FROM metrics"
            " JOIN points ON points.metric_id = metrics.id"
            f" WHERE metrics.run_id IN {_RUNS} AND metrics.name IN {_RUNS} AND points.value IS NOT NULL"
            " ORDER BY metrics.run_id, metrics.name, points.id LIMIT ?"
        )
        return self.db.records(Tested, sql, [json.dumps(list(run_ids)), json.dumps(list(names)), MOST_POINTS])

    def reached(
        self, run_ids: Sequence[int], name: str, target: float, better: Literal["max", "min"]
    ) -> dict[int, tuple[int, float]]:
        """Return the step and the time (seconds since all ranks were ready) at which each run first had a metric at
        `target` or better.

        Runs that never did are omitted. Metrics whose extreme does not reach it are not scanned.
        """
        extreme, sign = ("high", ">=") if better == "max" else ("low", "<=")
        sql = (
            "SELECT run_id, step, min(time_s) FROM (SELECT metrics.run_id,"
            f" (SELECT id FROM points WHERE metric_id = metrics.id AND value {sign} ?2 ORDER BY id LIMIT 1) AS "
            "first, metrics.id AS metric"
            " FROM metrics WHERE metrics.run_id IN (SELECT value FROM json_each(?1)) AND metrics.name = ?3 "
            f"AND metrics.{extreme} {sign} ?2)"
            " JOIN points ON points.metric_id = metric AND points.id = first GROUP BY run_id"
        )
        return {row[0]: (row[1], row[2]) for row in self.db.rows(sql, [json.dumps(list(run_ids)), target, name])}


# ---- The course of one metric of many runs in a few values each, for the small charts of lists ---------------------

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
