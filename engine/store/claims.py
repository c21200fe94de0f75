"""What the runner does: register, claim a run of the queue for one worker, put back, end."""

import json
from collections.abc import Sequence

from engine.store import samples
from engine.store.clock import now
from engine.store.guarding import storable
from engine.store.queue import Queue, QueueCommands
from engine.store.records import ALIVE, BAD_ENDS, ENDED, MachineSample, ProcessIdentity, Status
from engine.store.sweep_commands import NOT_HELD, SweepCommands


class Claims(Queue, QueueCommands, SweepCommands):
    """The runner's side of the queue."""

    def register_runner(self, process: ProcessIdentity, *, cores: int, gpus: int, network: str = "") -> None:
        """Name the process that serves this store; it replaces any before it. `network` is what ranks listen on
        (engine.system.network_isolation.Level).
        """
        with self.change() as connection:
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

    def beat_runner(self, *, warm: bool) -> bool:
        """Say that the runner lives; return whether it was asked to stop."""
        with self.change() as connection:
            connection.execute("UPDATE runner SET heartbeat_at = ?, warm = ?", [now(), warm])
            row = connection.execute("SELECT stopping FROM runner").fetchone()
        return bool(row and row["stopping"])

    def ask_runner_to_stop(self) -> None:
        """Ask the runner to end once its runs have ended."""
        with self.change() as connection:
            connection.execute("UPDATE runner SET stopping = 1")

    def remove_runner(self) -> None:
        """Say that no runner serves this store."""
        with self.change() as connection:
            connection.execute("DELETE FROM runner")

    def add_machine_samples(self, found: Sequence[MachineSample]) -> None:
        """Keep what the machine does at the moment, for an hour."""
        samples.keep(self, found)

    def claim(self, run_id: int, worker: ProcessIdentity, gpus: Sequence[int], cores: Sequence[int] = ()) -> bool:
        """Give a queued run to a worker, with its GPUs and CPU cores by number; False where it is no longer queued, or
        on hold.
        """
        with self.change() as connection:
            cursor = connection.execute(
                "UPDATE runs SET status = 'starting', claimed_at = ?, starts = starts + 1, gpu_ids = ?, core_ids = ?,"
                " worker_boot_id = ?, worker_pid = ?, worker_started_ticks = ?, worker_pid_namespace = ?"
                f" WHERE id = ? AND status = 'queued' AND held_by IS NULL AND {NOT_HELD}",
                [
                    now(),
                    json.dumps(list(gpus)),
                    json.dumps(list(cores)),
                    worker.boot_id,
                    worker.pid,
                    worker.started_ticks,
                    worker.pid_namespace,
                    run_id,
                ],
            )
            if cursor.rowcount == 0:
                return False
            given = [f"{kind} {', '.join(map(str, ids))}" for kind, ids in (("GPUs", gpus), ("cores", cores)) if ids]
            self._note_event(run_id, "starting", "runner", ", ".join([f"worker pid {worker.pid}", *given]))
            self.touch(run_id)
        return True

    def requeue(self, run_id: int, why: str) -> bool:
        """Put back a claimed run that its worker never began; False where it has."""
        with self.change() as connection:
            cursor = connection.execute(
                "UPDATE runs SET status = 'queued', claimed_at = NULL, gpu_ids = '[]', core_ids = '[]',"
                " worker_boot_id = NULL, worker_pid = NULL, worker_started_ticks = NULL, worker_pid_namespace = NULL"
                " WHERE id = ? AND status = 'starting' AND begun_at IS NULL",
                [run_id],
            )
            if cursor.rowcount == 0:
                return False
            self._note_event(run_id, "queued", "runner", why)
            self.touch(run_id)
        return True

    def refuse(self, run_id: int, cause: str) -> bool:
        """Fail a queued run that can never be placed; False where it is no longer queued."""
        return self._to_end(run_id, ("queued",), "failed", cause, "", None, "runner")

    def end(
        self,
        run_id: int,
        status: Status,
        cause: str,
        *,
        error: str = "",
        execution_time_s: float | None = None,
        who: str = "runner",
    ) -> bool:
        """Give a live run its last status and cause; False, and nothing written, where it has ended already."""
        return self._to_end(run_id, ALIVE, status, cause, error, execution_time_s, who)

    def _to_end(
        self,
        run_id: int,
        allowed: Sequence[Status],
        status: Status,
        cause: str,
        error: str,
        execution_time_s: float | None,
        who: str,
    ) -> bool:
        if status not in ENDED:
            raise ValueError(f"A run ends as one of {', '.join(ENDED)}, got '{status}'.")
        with self.change():
            return self._end(run_id, allowed, status, cause, error, execution_time_s, who)

    def _end(
        self,
        run_id: int,
        allowed: Sequence[Status],
        status: Status,
        cause: str,
        error: str,
        execution_time_s: float | None,
        who: str,
    ) -> bool:
        """Write a run's end, inside a change; False where its status is none of those allowed."""
        if self._status(run_id) not in allowed:
            return False
        self.connection.execute(
            (
                "UPDATE runs SET status = ?, cause = ?, error = ?, ended_at = ?, execution_time_s = coalesce(?, "
                "execution_time_s) WHERE id = ?"
            ),
            [status, storable(cause), storable(error), now(), execution_time_s, run_id],
        )
        self.connection.execute(
            "UPDATE ranks SET state = 'ended' WHERE run_id = ? AND state NOT IN ('done', 'failed', 'ended')", [run_id]
        )
        self._note_event(run_id, status, who, cause)
        self.touch(run_id)
        if status in BAD_ENDS:
            self._stop_failing_sweep(run_id)
        self._tell_end(run_id)
        return True
