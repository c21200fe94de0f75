"""The worker's commands: begin the run, update its ranks, and write their data, one transaction per batch."""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from engine.errors import NoCheckpoint, WrongStatus
from engine.recorder import Point
from engine.seeding import SEEDING
from engine.store.connection import WriteConnection
from engine.store.curve_records import MachineSample
from engine.store.curves.ingest import take_over, write_points
from engine.store.notices.outbox import NoticeWriter
from engine.store.records import RESUMES, ProcessIdentity, RankBatch, RankRow, Run
from engine.store.runs.commands import RunChanges
from engine.store.runs.reader import RunReader
from engine.store.timestamps import now
from engine.trace.health import Health
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
        *,
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

    def note_standstill(self, run_id: int, kind: str, sentence: str) -> None:
        """Record that a run stands still, as an event and in messages to its owner's channels."""
        with self.db.change():
            self.db.touch(run_id)
            self._changes.note_event(run_id, kind, "worker", sentence)
            self._notices.tell_standstill(run_id)

    def write_health(self, run_id: int, health: Health) -> None:
        """Store what each rank of a run is doing, in place of what it did before."""
        with self.db.change() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO run_health (run_id, at, health) VALUES (?, ?, ?)",
                [run_id, health.at, json.dumps(health.plain(), ensure_ascii=False)],
            )


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
