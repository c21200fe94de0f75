"""What a worker writes: its run's beginning, its ranks, and all they record, a transaction a batch."""

import json
import math
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from engine.errors import WrongStatus
from engine.recorder import Point
from engine.store.claims import Claims
from engine.store.clock import now
from engine.store.reading import RUN, as_run
from engine.store.records import MachineSample, ProcessIdentity, RankBatch, RankRow, Run

WHOLE_RUN = -1
"""Stands for 'no rank' in the metrics table, where NULL would not be unique."""


class Store(Claims):
    """All that is written to a store; for one thread."""

    def begin(self, run_id: int, worker: ProcessIdentity, environment: Mapping[str, Any]) -> Run:
        """Take a claimed run as its worker and return it; raises WrongStatus where it was claimed for another or is past its start."""
        with self.change() as connection:
            row = connection.execute(f"{RUN} WHERE runs.id = ?", [run_id]).fetchone()
            if row is None:
                raise self.no_such_run(run_id)
            run = as_run(row)
            if run.status not in ("starting", "stopping") or run.worker != worker or run.begun_at is not None:
                raise WrongStatus(f"Run {run_id} is {run.status} and not waiting for this worker (pid {worker.pid}); the worker leaves it alone.")
            connection.execute(
                "UPDATE runs SET begun_at = ?, heartbeat_at = ?, environment = ? WHERE id = ?", [now(), now(), json.dumps(dict(environment)), run_id]
            )
            self.touch(run_id)
            return as_run(connection.execute(f"{RUN} WHERE runs.id = ?", [run_id]).fetchone())

    def stop_requested_by(self, run_id: int) -> str:
        """Return who asked for the run's end, empty where nobody did."""
        row = self.row("SELECT stop_requested_by FROM runs WHERE id = ?", [run_id])
        return str(row["stop_requested_by"] or "") if row else ""

    def add_ranks(self, run_id: int, ranks: Sequence[RankRow]) -> None:
        """Name the run's ranks."""
        self.update_ranks(run_id, ranks)

    def update_ranks(self, run_id: int, ranks: Sequence[RankRow]) -> None:
        """Say how ranks stand."""
        with self.change() as connection:
            connection.executemany(
                "INSERT OR REPLACE INTO ranks (run_id, rank, role, pid, device, state, last_step, heartbeat_at, exit_code, memory_mb, cpu_percent)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [(run_id, r.rank, r.role, r.pid, r.device, r.state, r.last_step, r.heartbeat_at, r.exit_code, r.memory_mb, r.cpu_percent) for r in ranks],
            )
            self.touch(run_id)

    def mark_running(self, run_id: int, startup_time_s: float) -> None:
        """Say that all ranks are ready; a stopping run stays stopping."""
        with self.change() as connection:
            connection.execute(
                "UPDATE runs SET started_at = coalesce(started_at, ?), startup_time_s = coalesce(startup_time_s, ?) WHERE id = ?",
                [now(), startup_time_s, run_id],
            )
            if connection.execute("UPDATE runs SET status = 'running' WHERE id = ? AND status = 'starting'", [run_id]).rowcount:
                self._note_event(run_id, "running", "worker", f"all ranks ready after {startup_time_s:.2f} s")
            self.touch(run_id)

    def add_log(self, run_id: int, source: str, path: str) -> None:
        """Name a log file of the run; `path` is relative to the run's folder."""
        with self.change() as connection:
            connection.execute("INSERT OR REPLACE INTO logs (run_id, source, path) VALUES (?, ?, ?)", [run_id, source, path])
            self.touch(run_id)

    def write(
        self,
        run_id: int,
        batches: Sequence[RankBatch],
        *,
        run_points: Sequence[Point] = (),
        progress: tuple[int, int, str] | None = None,
        samples: Sequence[MachineSample] = (),
    ) -> None:
        """Keep what ranks recorded, whole or not at all."""
        with self.change() as connection:
            for batch in batches:
                self._write_points(run_id, batch.rank, batch.points)
                _write_rest(connection, run_id, batch)
            self._write_points(run_id, WHOLE_RUN, run_points)
            if progress:
                connection.execute("INSERT OR REPLACE INTO progress (run_id, done, total, unit, updated_at) VALUES (?, ?, ?, ?, ?)", [run_id, *progress, now()])
            connection.executemany(
                "INSERT INTO machine_metrics (run_id, at, source, name, value) VALUES (?, ?, ?, ?, ?)",
                [(run_id, s.at, s.source, s.name, s.value) for s in samples],
            )
            connection.execute("UPDATE runs SET heartbeat_at = ? WHERE id = ?", [now(), run_id])
            self.touch(run_id)

    def _write_points(self, run_id: int, rank: int, points: Sequence[Point]) -> None:
        by_name: dict[str, list[Point]] = {}
        for point in points:
            by_name.setdefault(point.name, []).append(point)
        for name, mine in by_name.items():
            metric_id = self._metric(run_id, rank, name)
            self.connection.executemany(
                "INSERT INTO points (metric_id, step, time_s, passes, value, nonfinite) VALUES (?, ?, ?, ?, ?, ?)",
                [(metric_id, p.step, p.time_s, p.passes, *_kept(p.value)) for p in mine],
            )
            self._summarize(metric_id, mine)

    def _metric(self, run_id: int, rank: int, name: str) -> int:
        key = [run_id, name, rank]
        self.connection.execute("INSERT OR IGNORE INTO metrics (run_id, name, rank) VALUES (?, ?, ?)", key)
        found: int = self.connection.execute("SELECT id FROM metrics WHERE run_id = ? AND name = ? AND rank = ?", key).fetchone()["id"]
        return found

    def _summarize(self, metric_id: int, points: Sequence[Point]) -> None:
        """Bring the metric's summary row up to date with new points; those that are not finite only count."""
        finite = [p for p in points if math.isfinite(p.value)]
        self.connection.execute("UPDATE metrics SET count = count + ? WHERE id = ?", [len(points), metric_id])
        if not finite:
            return
        values = [p.value for p in finite]
        self.connection.execute(
            "UPDATE metrics SET finite = finite + ?, total = total + ?, last = ?, last_step = ?,"
            " low = min(coalesce(low, ?), ?), high = max(coalesce(high, ?), ?) WHERE id = ?",
            [len(values), math.fsum(values), values[-1], finite[-1].step, min(values), min(values), max(values), max(values), metric_id],
        )


def _kept(value: float) -> tuple[float | None, str | None]:
    """Return a value and its marker as the points table holds them: SQLite would turn NaN into NULL."""
    if math.isfinite(value):
        return value, None
    return None, "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"


def _write_rest(connection: sqlite3.Connection, run_id: int, batch: RankBatch) -> None:
    """Keep a batch's phases (totals), spans and histogram counts (new ones)."""
    connection.executemany(
        "INSERT OR REPLACE INTO phases (run_id, rank, name, seconds) VALUES (?, ?, ?, ?)", [(run_id, batch.rank, name, s) for name, s in batch.phases.items()]
    )
    connection.executemany(
        "INSERT INTO spans (run_id, rank, name, stage, micro_batch, t0_ns, t1_ns, bytes, peer) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        ((run_id, batch.rank, s.name, s.stage, s.micro_batch, s.t0_ns, s.t1_ns, s.bytes, s.peer) for s in batch.spans),
    )
    counts: Iterable[tuple[Any, ...]] = ((run_id, batch.rank, name, bucket, count) for (name, bucket), count in batch.histograms.items())
    connection.executemany(
        "INSERT INTO histograms (run_id, rank, name, bucket, count) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (run_id, rank, name, bucket) DO UPDATE SET count = count + excluded.count",
        counts,
    )
