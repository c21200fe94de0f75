"""Jobs of runs on clusters: what is submitted, how far their records are in the store, and their commands."""

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.errors import StoreBusy, StoreFull
from engine.seeding import SEEDING
from engine.store.connection import Connection, Row, WriteConnection
from engine.store.records import Status
from engine.store.runs.commands import RunChanges
from engine.store.runs.rows import NOT_HELD
from engine.store.timestamps import now


@dataclass(frozen=True)
class ClusterJob:
    """One job, from before its submission until its files are in the home."""

    run_id: int
    cluster: str
    token: str
    """Part of the names of the job and its folder, unique."""
    folder: str
    submitted_at: str
    job_id: str
    """Slurm's id; empty until it is known."""
    state: str
    """Slurm's state, such as PENDING; empty until squeue listed it."""
    reason: str
    """Slurm's reason for the state, such as Resources; empty for none."""
    nodes: str
    seen_at: str | None
    """When squeue last listed it."""
    position: int
    """Bytes of its file of records that are in the store."""
    sequence: int
    """Number of its last record that is in the store."""
    grown_at: str | None
    """When records last came."""
    stop_sent_at: str | None
    """When its worker was asked to stop."""


@dataclass(frozen=True)
class JobState:
    """What squeue says of a job."""

    job_id: str
    state: str
    reason: str = ""
    nodes: str = ""


class ClusterJobReader:
    """Queries of jobs on clusters."""

    def __init__(self, db: Connection) -> None:
        self.db = db

    def all(self) -> list[ClusterJob]:
        """Return all jobs that are not over, oldest first."""
        return [_as_job(row) for row in self.db.rows("SELECT * FROM cluster_jobs ORDER BY run_id")]

    def run_ids(self) -> set[int]:
        """Return the runs that have a job, ended ones until their files are in the home."""
        return {int(row["run_id"]) for row in self.db.rows("SELECT run_id FROM cluster_jobs")}

    def of(self, run_id: int) -> ClusterJob | None:
        """Return the job of a run, None if it has none (yet, or any more)."""
        row = self.db.row("SELECT * FROM cluster_jobs WHERE run_id = ?", [run_id])
        return _as_job(row) if row else None

    def targets(self) -> list[str]:
        """Return the clusters of queued runs."""
        found = self.db.rows(
            "SELECT DISTINCT target FROM runs INDEXED BY runs_queue WHERE status = 'queued' AND target <> ''"
        )
        return [str(row["target"]) for row in found]

    def is_held(self, run_id: int) -> bool:
        """Return whether a run is on hold, by a person or by its sweep's pause."""
        return self.db.exists(f"SELECT 1 FROM runs WHERE id = ? AND NOT ({NOT_HELD})", [run_id])


class ClusterJobCommands:
    """The runner's commands of jobs on clusters."""

    def __init__(self, db: WriteConnection) -> None:
        self.db = db
        self._changes = RunChanges(db)

    def plan(self, run_id: int, cluster: str, token: str, folder: str) -> bool:
        """Record a job before it is submitted; False if its run is no longer queued, on hold, or has a job."""
        with self.db.change() as connection:
            done = connection.execute(
                "INSERT INTO cluster_jobs (run_id, cluster, token, folder, submitted_at)"
                f" SELECT id, ?, ?, ?, ? FROM runs WHERE id = ? AND status = 'queued' AND {NOT_HELD}"
                " ON CONFLICT DO NOTHING",
                [cluster, token, folder, now(), run_id],
            )
            return done.rowcount == 1

    def submitted(self, job: ClusterJob, job_id: str) -> None:
        """Record that Slurm has accepted a job."""
        with self.db.change() as connection:
            sql = "UPDATE cluster_jobs SET job_id = ? WHERE token = ? AND job_id = ''"
            if connection.execute(sql, [job_id, job.token]).rowcount:
                self._changes.note_event(job.run_id, "submitted", "runner", f"job {job_id} on {job.cluster}")
                self.db.touch(job.run_id)

    def seen(self, found: Sequence[tuple[ClusterJob, JobState]]) -> None:
        """Record what squeue says of jobs."""
        with self.db.change() as connection:
            for job, state in found:
                connection.execute(
                    "UPDATE cluster_jobs SET state = ?, reason = ?, nodes = ?, seen_at = ? WHERE token = ?",
                    [state.state, state.reason, state.nodes, now(), job.token],
                )
                if (state.state, state.reason, state.nodes) != (job.state, job.reason, job.nodes):
                    self.db.touch(job.run_id)

    def advance(self, job: ClusterJob, position: int, sequence: int, writes: Sequence[Callable[[], None]]) -> bool:
        """Write records and how far the job's are in the store, all or nothing; False, and nothing written, if another
        process has taken them.

        A record that can't be stored is left out, with an event.
        """
        with self.db.change() as connection:
            done = connection.execute(
                "UPDATE cluster_jobs SET position = ?, sequence = ?, grown_at = ? WHERE token = ? AND position = ?",
                [position, sequence, now(), job.token, job.position],
            )
            if done.rowcount == 0:
                return False
            for write in writes:
                self._write_one(connection, job.run_id, write)
            return True

    def _write_one(self, connection: sqlite3.Connection, run_id: int, write: Callable[[], None]) -> None:
        connection.execute("SAVEPOINT record")
        try:
            write()
        except (StoreBusy, StoreFull):
            raise
        except Exception as error:  # whatever a file of another machine holds must not stop the records after it
            connection.execute("ROLLBACK TO record")
            why = f"A record of the job could not be stored and was left out: {type(error).__name__}: {error}"[:500]
            self._changes.note_event(run_id, "record left out", "runner", why)
        connection.execute("RELEASE record")

    def stop_sent(self, job: ClusterJob) -> None:
        """Record that the job's worker was asked to stop."""
        with self.db.change() as connection:
            connection.execute("UPDATE cluster_jobs SET stop_sent_at = ? WHERE token = ?", [now(), job.token])

    def remove(self, job: ClusterJob) -> None:
        """Forget a job that is over."""
        with self.db.change() as connection:
            connection.execute("DELETE FROM cluster_jobs WHERE token = ?", [job.token])
            self.db.touch(job.run_id)

    def begin(self, run_id: int, detail: str, environment: str, cores: str, gpus: str) -> Status:
        """Begin a queued run whose job has started, and return its status: `starting`, or what it was."""
        with self.db.change() as connection:
            at = now()
            done = connection.execute(
                "UPDATE runs SET status = 'starting', claimed_at = ?, begun_at = ?, heartbeat_at = ?,"
                " starts = starts + 1, environment = ?, core_ids = ?, gpu_ids = ?, seeding = ?"
                " WHERE id = ? AND status = 'queued'",
                [at, at, at, environment, cores, gpus, SEEDING, run_id],
            )
            if done.rowcount:
                self._changes.note_event(run_id, "starting", "runner", f"{detail}{self._changes.waited(run_id)}")
                self.db.touch(run_id)
            return self._changes.status(run_id)


def _as_job(row: Row) -> ClusterJob:
    return ClusterJob(**{name: row[name] for name in ClusterJob.__dataclass_fields__})
