"""The process that serves the store: its identity, its heartbeat, and the processes of its runs."""

import json
from collections.abc import Collection

from engine.store.connection import Connection, WriteConnection
from engine.store.records import ProcessIdentity, RunnerRow
from engine.store.runs.rows import as_runner
from engine.store.timestamps import now


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

    def rank_pids(self, run_id: int) -> list[int]:
        """Return the process ids of the run's ranks."""
        return [
            row["pid"] for row in self.db.rows("SELECT pid FROM ranks WHERE run_id = ? AND pid IS NOT NULL", [run_id])
        ]

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
        with self.db.change() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO runner (id, boot_id, pid, started_ticks, pid_namespace, started_at, "
                "heartbeat_at, cores, gpus, network)"
                " VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    process.boot_id,
                    process.pid,
                    process.started_ticks,
                    process.pid_namespace,
                    now(),
                    now(),
                    cores,
                    gpus,
                    network,
                ],
            )

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
