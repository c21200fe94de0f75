"""The process that serves the store: its identity, its heartbeat, and the processes of its runs."""

import json
from collections.abc import Collection, Sequence
from dataclasses import asdict

from engine.store.connection import Connection, WriteConnection
from engine.store.curve_records import MachineSample
from engine.store.records import ProcessIdentity, RunnerRow
from engine.store.runs.rows import as_runner
from engine.store.timestamps import in_seconds, now


class RunnerReader:
    """Queries of the runner and its workers."""

    def __init__(self, db: Connection) -> None:
        self.db = db

    def current(self) -> RunnerRow | None:
        """Return the last known state of the runner, or None if none is registered."""
        row = self.db.row("SELECT * FROM runner")
        return as_runner(row) if row else None

    def process(self) -> ProcessIdentity | None:
        """Return the runner that registered last and has not signed off; it may be dead."""
        found = self.current()
        return found.process if found else None

    def is_stopping(self) -> bool:
        """Return whether the runner was asked to stop."""
        return self.db.row("SELECT 1 FROM runner WHERE stopping") is not None

    def rank_pids(self, run_id: int) -> list[int]:
        """Return the process ids of the run's ranks."""
        return self.db.column("SELECT pid FROM ranks WHERE run_id = ? AND pid IS NOT NULL", [run_id])

    def workers(self, boot_id: str, pids: Collection[int]) -> list[tuple[int, str | None, ProcessIdentity]]:
        """Return id, end (None for a live run) and worker of the runs whose worker had one of these pids in this boot
        of the machine, oldest first.
        """
        sql = (
            "SELECT id, ended_at, worker_boot_id, worker_pid, worker_started_ticks, worker_pid_namespace FROM runs"
            " WHERE worker_boot_id = ? AND worker_pid IN (SELECT value FROM json_each(?)) ORDER BY id"
        )
        return [
            (row[0], row[1], ProcessIdentity(*tuple(row)[2:]))
            for row in self.db.rows(sql, [boot_id, json.dumps(list(pids))])
        ]


class RunnerCommands:
    """Commands of the runner about itself."""

    def __init__(self, db: WriteConnection) -> None:
        self.db = db

    def register(self, process: ProcessIdentity, *, cores: int, gpus: int, network: str = "") -> None:
        """Register this process as the store's runner, replacing any other. `network` is the network that ranks listen
        on (engine.system.network_isolation.Level).
        """
        at = now()
        capacity = {"started_at": at, "heartbeat_at": at, "cores": cores, "gpus": gpus, "network": network}
        with self.db.change():
            self.db.insert("runner", {"id": 1, **asdict(process), **capacity}, otherwise="REPLACE")

    def beat(self, *, warm: bool) -> bool:
        """Write a heartbeat; return whether the runner was asked to stop."""
        with self.db.change() as connection:
            connection.execute("UPDATE runner SET heartbeat_at = ?, warm = ?", [now(), warm])
            row = connection.execute("SELECT stopping FROM runner").fetchone()
        return bool(row and row["stopping"])

    def ask_to_stop(self) -> None:
        """Ask the runner to stop after its runs have ended."""
        with self.db.change() as connection:
            connection.execute("UPDATE runner SET stopping = 1")

    def remove(self) -> None:
        """Unregister the runner."""
        with self.db.change() as connection:
            connection.execute("DELETE FROM runner")

    def disown(self, run_ids: Collection[int]) -> None:
        """Unregister the runner, and forget the workers of these runs: a backup names processes that it doesn't own."""
        with self.db.change() as connection:
            connection.execute("DELETE FROM runner")
            connection.execute(
                "UPDATE runs SET worker_boot_id = NULL, worker_pid = NULL, worker_started_ticks = NULL,"
                " worker_pid_namespace = NULL WHERE id IN (SELECT value FROM json_each(?))",
                [json.dumps(list(run_ids))],
            )
            connection.execute(
                "UPDATE ranks SET pid = NULL WHERE run_id IN (SELECT value FROM json_each(?))",
                [json.dumps(list(run_ids))],
            )


# ------------------------------------------------------------------------------------------------------------------
# Measurements of the machine over the last hour, sampled by the runner; older ones are deleted when new ones
# arrive.

KEPT_S = 3_660.0
"""Age at which a sample is deleted: an hour, plus a minute so that a chart of an hour has no gap at its left end."""


class MachineReader:
    """Queries of the samples of the last hour."""

    def __init__(self, db: Connection) -> None:
        self.db = db

    def samples(self) -> list[MachineSample]:
        """Return the runner's samples of the last hour, oldest first."""
        return self.db.records(
            MachineSample, "SELECT at, source, name, value FROM machine_samples ORDER BY at, source, name"
        )

    def latest(self) -> list[MachineSample]:
        """Return the newest sample of each measurement."""
        sql = (
            "SELECT at, source, name, value FROM machine_samples WHERE at = (SELECT max(at) FROM machine_samples) "
            "ORDER BY source, name"
        )
        return self.db.records(MachineSample, sql)

    def newest(self) -> str:
        """Return the time of the newest sample, empty if there is none."""
        row = self.db.row("SELECT max(at) AS at FROM machine_samples")
        return str(row["at"] or "") if row else ""


class MachineCommands:
    """The runner's commands for samples."""

    def __init__(self, db: WriteConnection) -> None:
        self.db = db

    def add(self, found: Sequence[MachineSample]) -> None:
        """Store samples, and delete those that are too old or in the future."""
        if not found:
            return
        with self.db.change() as connection:
            sql = "INSERT OR REPLACE INTO machine_samples (at, source, name, value) VALUES (?, ?, ?, ?)"
            connection.executemany(sql, [(s.at, s.source, s.name, s.value) for s in found])
            newest = max(sample.at for sample in found)
            connection.execute(
                "DELETE FROM machine_samples WHERE at < ? OR at > ?", [in_seconds(-KEPT_S, newest), newest]
            )
