"""The process that serves the store: who it is, that it lives, and the processes of its runs."""

import json
from collections.abc import Collection

from engine.store.connection import Connection, WriteConnection
from engine.store.records import ProcessIdentity, RunnerRow
from engine.store.runs.rows import as_runner
from engine.store.timestamps import now


class RunnerReader:
    """The questions about the process that serves the store, and about its workers."""

    def __init__(self, db: Connection) -> None:
        self.db = db

    def current(self) -> RunnerRow | None:
        """Return the runner as last heard of, or None where none is registered."""
        row = self.db.row("SELECT * FROM runner")
        return as_runner(row) if row else None

    def process(self) -> ProcessIdentity | None:
        """Return the runner that registered last and has not signed off; it may be long dead."""
        row = self.db.row("SELECT * FROM runner")
        return as_runner(row).process if row else None

    def rank_pids(self, run_id: int) -> list[int]:
        """Return the process ids that the run's ranks had."""
        return [
            row["pid"] for row in self.db.rows("SELECT pid FROM ranks WHERE run_id = ? AND pid IS NOT NULL", [run_id])
        ]

    def workers(self, boot_id: str, pids: Collection[int]) -> list[tuple[int, str | None, ProcessIdentity]]:
        """Return id, end (None while it goes on) and worker of the runs whose worker had one of these pids in this boot
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
    """What the runner writes about itself."""

    def __init__(self, db: WriteConnection) -> None:
        self.db = db

    def register(self, process: ProcessIdentity, *, cores: int, gpus: int, network: str = "") -> None:
        """Name the process that serves this store; it replaces any before it. `network` is what ranks listen on
        (engine.system.network_isolation.Level).
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
        """Say that the runner lives; return whether it was asked to stop."""
        with self.db.change() as connection:
            connection.execute("UPDATE runner SET heartbeat_at = ?, warm = ?", [now(), warm])
            row = connection.execute("SELECT stopping FROM runner").fetchone()
        return bool(row and row["stopping"])

    def ask_to_stop(self) -> None:
        """Ask the runner to end once its runs have ended."""
        with self.db.change() as connection:
            connection.execute("UPDATE runner SET stopping = 1")

    def remove(self) -> None:
        """Say that no runner serves this store."""
        with self.db.change() as connection:
            connection.execute("DELETE FROM runner")
