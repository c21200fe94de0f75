"""The worker's commands: begin the run, update its ranks, and write their data, one transaction per batch, down to each
point.
"""

import json
import math
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from engine.errors import NoCheckpoint, WrongStatus
from engine.recorder import Point
from engine.seeding import SEEDING
from engine.store.connection import WriteConnection
from engine.store.curve_records import MachineSample
from engine.store.curves.ingest import take_over
from engine.store.notices.outbox import NoticeWriter
from engine.store.records import RESUMES, ProcessIdentity, RankBatch, RankRow, Run
from engine.store.runs.commands import RunChanges
from engine.store.runs.details import RunDetails, TraceQueries
from engine.store.runs.reader import RunReader
from engine.store.schema.minmax_buckets import keep_corners
from engine.store.timestamps import now
from engine.trace.health import BAD, Health
from engine.trace.layout import TraceWindow


class WorkerCommands:
    """The worker's commands of its run."""

    def __init__(self, db: WriteConnection) -> None:
        self.db = db
        self._changes = RunChanges(db)
        self._runs = RunReader(db)
        self._notices = NoticeWriter(db)

    def begin(
        self, run_id: int, worker: ProcessIdentity, environment: Mapping[str, Any], uptime_s: float | None = None
    ) -> Run:
        """Begin a claimed run as its worker and return it; raises WrongStatus if it was claimed for another worker or
        has already begun.

        A time limit counts from `uptime_s`, the machine's current uptime. A run that was asked to stop meanwhile is
        begun too, because its worker ends it.
        """
        with self.db.change() as connection:
            run = self._runs.one(run_id)
            if run.status not in ("starting", "stopping") or run.worker != worker or run.begun_at is not None:
                raise WrongStatus(
                    f"Run {run_id} is {run.status} and not assigned to this worker (pid {worker.pid}), which "
                    "ignores it."
                )
            at, text = now(), json.dumps(dict(environment), default=str)
            sql = (
                "UPDATE runs SET begun_at = ?, heartbeat_at = ?, environment = ?, begun_uptime_s = ?, seeding = ? "
                "WHERE id = ?"
            )
            connection.execute(sql, [at, at, text, uptime_s, SEEDING, run_id])
            self.db.touch(run_id)
            return self._runs.one(run_id)

    def note_environment(self, run_id: int, name: str, value: Any) -> None:
        """Add information to a begun run's environment; `value` is plain JSON."""
        with self.db.change() as connection:
            connection.execute(
                "UPDATE runs SET environment = json_set(environment, ?, json(?)) WHERE id = ?",
                [f"$.{name}", json.dumps(value), run_id],
            )
            self.db.touch(run_id)

    def go_on_from_parent(
        self, run_id: int, *, step: int, time_s: float, steps: Mapping[int, int] | None = None, uid: str = ""
    ) -> bool:
        """Copy the parent's curves up to a checkpoint into a run; False, and nothing written, if it has them already or
        has no parent. `steps` are the last steps of ranks that it includes, `uid` the run that it names.

        Raises NoCheckpoint if the store lacks points that the checkpoint includes.
        """
        row = self.db.row(
            "SELECT parent_id FROM runs WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM events WHERE run_id = ?1 AND kind "
            "= ?2)",
            [run_id, RESUMES],
        )
        if row is None or (parent_id := row["parent_id"]) is None:
            return False
        if lacking := self._runs.why_behind(parent_id, steps or {}):
            raise NoCheckpoint(f"Run {parent_id} can't be resumed: {lacking}")
        taking = take_over(self.db, run_id, parent_id, step=step, time_s=time_s, steps=steps or {})
        with taking as (connection, time_s):
            connection.execute("UPDATE runs SET time_before_s = ?, resumed_uid = ? WHERE id = ?", [time_s, uid, run_id])
            self._changes.note_event(run_id, RESUMES, "worker", f"run {parent_id} at step {step:,}")
            self.db.touch(run_id)
        return True

    def add_ranks(self, run_id: int, ranks: Sequence[RankRow]) -> None:
        """Add the run's ranks."""
        self.update_ranks(run_id, ranks)

    def update_ranks(self, run_id: int, ranks: Sequence[RankRow]) -> None:
        """Update the state of ranks; a known step or heartbeat is kept. `dropped` is written with a rank's batches."""
        with self.db.change() as connection:
            self.db.touch(run_id)
            connection.executemany(
                "INSERT INTO ranks (run_id, rank, role, pid, device, state, last_step, heartbeat_at, "
                "exit_code, memory_mb, cpu_percent)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (run_id, rank) DO UPDATE SET"
                " role = excluded.role, pid = coalesce(excluded.pid, pid), device = excluded.device, state = "
                "excluded.state,"
                " last_step = coalesce(excluded.last_step, last_step), heartbeat_at = "
                "coalesce(excluded.heartbeat_at, heartbeat_at),"
                " exit_code = excluded.exit_code, memory_mb = excluded.memory_mb, cpu_percent = excluded.cpu_percent",
                [
                    (
                        run_id,
                        r.rank,
                        r.role,
                        r.pid,
                        r.device,
                        r.state,
                        r.last_step,
                        r.heartbeat_at,
                        r.exit_code,
                        r.memory_mb,
                        r.cpu_percent,
                    )
                    for r in ranks
                ],
            )

    def mark_running(self, run_id: int, startup_time_s: float) -> None:
        """Record that all ranks are ready; a stopping run stays stopping, an ended one is unchanged."""
        with self.db.change() as connection:
            sql = (
                "UPDATE runs SET started_at = ?, startup_time_s = ? WHERE id = ? AND status IN ('starting', "
                "'stopping') AND started_at IS NULL"
            )
            if connection.execute(sql, [now(), startup_time_s, run_id]).rowcount == 0:
                self._changes.status(run_id)
                return
            if connection.execute(
                "UPDATE runs SET status = 'running' WHERE id = ? AND status = 'starting'", [run_id]
            ).rowcount:
                self._changes.note_event(run_id, "running", "worker", f"all ranks ready after {startup_time_s:.2f} s")
            self.db.touch(run_id)

    def add_log(self, run_id: int, source: str, path: str) -> None:
        """Add a log file of the run; `path` is relative to the run's folder."""
        with self.db.change() as connection:
            self.db.touch(run_id)
            connection.execute(
                "INSERT OR REPLACE INTO logs (run_id, source, path) VALUES (?, ?, ?)", [run_id, source, path]
            )

    def write(
        self,
        run_id: int,
        batches: Sequence[RankBatch],
        run_points: Sequence[Point] = (),
        progress: tuple[int, int, str] | None = None,
        samples: Sequence[MachineSample] = (),
        windows: Sequence[TraceWindow] = (),
    ) -> None:
        """Store data recorded by ranks, all or nothing; `run_points` are of the whole run."""
        with self.db.change() as connection:
            self.db.touch(run_id)
            connection.execute("UPDATE runs SET heartbeat_at = ? WHERE id = ?", [now(), run_id])
            write_points(connection, run_id, [*((batch.rank, batch.points) for batch in batches), (None, run_points)])
            for batch in batches:
                _write_rest(connection, run_id, batch)
            if progress:
                connection.execute(
                    "INSERT OR REPLACE INTO progress (run_id, done, total, unit, updated_at) VALUES (?, ?, ?, ?, ?)",
                    [run_id, *progress, now()],
                )
            connection.executemany(
                "INSERT INTO machine_metrics (run_id, at, source, name, value) VALUES (?, ?, ?, ?, ?)",
                ((run_id, s.at, s.source, s.name, s.value) for s in samples),
            )
            connection.executemany(
                "INSERT OR REPLACE INTO trace_windows (run_id, begin_ns, end_ns, reason) VALUES (?, ?, ?, ?)",
                ((run_id, *window) for window in windows),
            )

    def note_event(self, run_id: int, kind: str, detail: str) -> None:
        """Record an event of a run."""
        with self.db.change():
            self.db.touch(run_id)
            self._changes.note_event(run_id, kind, "worker", detail)

    def note_standstill(self, run_id: int, kind: str, sentence: str) -> None:
        """Record that a run stands still, as an event and in messages to its owner's channels."""
        with self.db.change():
            self.db.touch(run_id)
            self._changes.note_event(run_id, kind, "worker", sentence)
            self._notices.tell_standstill(run_id)

    def write_health(self, run_id: int, health: Health) -> None:
        """Store what each rank of a run is doing, in place of what it did before; an event where a standstill ended."""
        with self.db.change() as connection:
            before = RunDetails(self.db).health(run_id)
            if before and before.verdict.state in BAD and health.verdict.state not in BAD:
                ended = f"{before.verdict.rank or 'Every rank'} continues."
                self._changes.note_event(run_id, "continues", "worker", ended[0].upper() + ended[1:])
            connection.execute(
                "INSERT OR REPLACE INTO run_health (run_id, at, health) VALUES (?, ?, ?)",
                [run_id, health.at, json.dumps(health.plain(), ensure_ascii=False)],
            )


class StoreSink:
    """Writes one run's records to the store: the sink of its worker, or of the runner for a job's records."""

    def __init__(self, db: WriteConnection, run_id: int) -> None:
        worker = self._worker = WorkerCommands(db)
        self._traces = TraceQueries(db)
        self._run_id = run_id
        self._known: set[int] = set()
        self._seen_request = 0
        self.note = partial(worker.note_environment, run_id)
        self.running = partial(worker.mark_running, run_id)
        self.write = partial(worker.write, run_id)
        self.standstill = partial(worker.note_standstill, run_id)
        self.health = partial(worker.write_health, run_id)
        self.event = partial(worker.note_event, run_id)
        self.sync = db.sync

    def ranks(self, rows: Sequence[RankRow]) -> None:
        new = [row for row in rows if row.rank not in self._known]
        if new:
            self._worker.add_ranks(self._run_id, new)
            self._known |= {row.rank for row in new}
            for row in new:
                self._worker.add_log(self._run_id, row.role, f"logs/{row.role}.log")
        if old := [row for row in rows if row not in new]:
            self._worker.update_ranks(self._run_id, old)

    def log_file(self, source: str, path: str) -> None:
        self._worker.add_log(self._run_id, source, path)

    def trace_requests(self) -> list[float]:
        found = self._traces.requests(self._run_id, self._seen_request)
        self._seen_request = max([self._seen_request, *(number for number, _ in found)])
        return [seconds for _, seconds in found]


def _write_rest(connection: sqlite3.Connection, run_id: int, batch: RankBatch) -> None:
    """Store a batch's totals (last step, dropped points, phases) and new data (spans, histogram counts)."""
    connection.execute(
        "UPDATE ranks SET last_step = coalesce(?, last_step), dropped = max(?, dropped) WHERE run_id = ? AND rank = ?",
        [batch.last_step, batch.dropped, run_id, batch.rank],
    )
    connection.executemany(
        "INSERT OR REPLACE INTO phases (run_id, rank, name, seconds) VALUES (?, ?, ?, ?)",
        ((run_id, batch.rank, name, seconds) for name, seconds in batch.phases.items()),
    )
    connection.executemany(
        (
            "INSERT INTO spans (run_id, rank, name, stage, micro_batch, t0_ns, t1_ns, bytes, peer) VALUES (?, ?, "
            "?, ?, ?, ?, ?, ?, ?)"
        ),
        ((run_id, batch.rank, *span) for span in batch.spans),
    )
    connection.executemany(
        "INSERT INTO histograms (run_id, rank, name, bucket, count) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (run_id, rank, name, bucket) DO UPDATE SET count = count + excluded.count",
        ((run_id, batch.rank, name, bucket, count) for (name, bucket), count in batch.histograms.items()),
    )
    if (chunk := batch.trace) is not None:
        connection.execute(
            "INSERT INTO trace_chunks (run_id, rank, entries, lost, names, content) VALUES (?, ?, ?, ?, ?, ?)",
            [run_id, chunk.rank, len(chunk), chunk.lost, *chunk.packed()],
        )


# ---- Points, each together with its metric's summary row -----------------------------------------------------------

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
