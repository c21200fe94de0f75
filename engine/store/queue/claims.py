"""The runner's commands of runs: register, claim a queued run for a worker, requeue, end."""

import json
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace

from engine.errors import Forbidden, plural
from engine.registry import is_own
from engine.store.access.authorization import Authorization, storable
from engine.store.connection import WriteConnection
from engine.store.curves.ingest import POINT_BYTES
from engine.store.launches import Launch
from engine.store.notices.outbox import NoticeWriter
from engine.store.records import ALIVE, BAD_ENDS, ENDED, RETRIED, RETRIES, ProcessIdentity, Run, Status
from engine.store.runs.commands import RunChanges
from engine.store.runs.reader import RunReader
from engine.store.runs.rows import NOT_HELD
from engine.store.schema.config_text import TEXT_BYTES
from engine.store.sweeps.commands import stop_after_failures
from engine.store.timestamps import now, seconds_since

TIME_LIMIT = "its time limit"
"""Actor name for the end of a run that reached its time limit."""


class ClaimCommands:
    """The runner's commands of a run from its claim to its end."""

    def __init__(self, db: WriteConnection) -> None:
        self.db = db
        self._changes = RunChanges(db)
        self._runs = RunReader(db)
        self._notices = NoticeWriter(db)

    def claim(
        self, run_id: int, worker: ProcessIdentity, gpus: Sequence[int], cores: Sequence[int] = (), reason: str = ""
    ) -> bool:
        """Assign a queued run to a worker, with its GPUs and CPU cores by number; False if it is no longer queued, or
        on hold, or fails here: a command whose owner lost the permission while it waited. False too if the runner was
        asked to stop, but for a run that needs no core: its worker only follows a folder. `reason` is why it waited
        last, which its event says with the time.
        """
        with self.db.change() as connection:
            cursor = connection.execute(
                "UPDATE runs SET status = 'starting', claimed_at = ?, starts = starts + 1, gpu_ids = ?, core_ids = ?,"
                " worker_boot_id = ?, worker_pid = ?, worker_started_ticks = ?, worker_pid_namespace = ?"
                f" WHERE id = ? AND status = 'queued' AND {NOT_HELD}"
                " AND (cores = 0 OR NOT EXISTS (SELECT 1 FROM runner WHERE stopping))",
                [now(), json.dumps(list(gpus)), json.dumps(list(cores)), *astuple(worker), run_id],
            )
            if cursor.rowcount == 0:
                return False
            if refusal := self._refused(self._runs.one(run_id), "start"):
                self._end(run_id, "failed", f"It was not started: {refusal}")
                return False
            given = [
                f"{kind if len(ids) == 1 else plural(kind)} {', '.join(map(str, ids))}"
                for kind, ids in (("GPU", gpus), ("core", cores))
                if ids
            ]
            told = ", ".join([f"worker pid {worker.pid}", *given])
            self._changes.note_event(run_id, "starting", "runner", f"{told}{self._changes.waited(run_id, reason)}")
            self.db.touch(run_id)
        return True

    def note_wait(self, run_id: int, why: str) -> None:
        """Note as an event of a queued run what the runner waits for before it starts it."""
        with self.db.change():
            self._changes.note_event(run_id, "waits", "runner", why)
            self.db.touch(run_id)

    def requeue(self, run_id: int, why: str) -> bool:
        """Return a claimed run to the queue if its worker never began it; False if it has."""
        with self.db.change() as connection:
            cursor = connection.execute(
                "UPDATE runs SET status = 'queued', claimed_at = NULL, gpu_ids = '[]', core_ids = '[]',"
                " worker_boot_id = NULL, worker_pid = NULL, worker_started_ticks = NULL, worker_pid_namespace = NULL"
                " WHERE id = ? AND status = 'starting' AND begun_at IS NULL",
                [run_id],
            )
            if cursor.rowcount == 0:
                return False
            self._changes.note_event(run_id, "queued", "runner", why)
            self.db.touch(run_id)
        return True

    def refuse(self, run_id: int, cause: str) -> bool:
        """Fail a queued run that can never be placed; False if it is no longer queued."""
        return self._end(run_id, "failed", cause, allowed=("queued",))

    def end(
        self,
        run_id: int,
        status: Status,
        cause: str,
        *,
        error: str = "",
        execution_time_s: float | None = None,
        who: str = "runner",
        ended_at: str | None = None,
    ) -> bool:
        """Set the final status and cause of a live run, which ended now or at another time; False, and nothing written,
        if it has already ended.
        """
        if status not in ENDED:
            raise ValueError(f"status must be one of {', '.join(ENDED)}; got '{status}'.")
        return self._end(run_id, status, cause, error, execution_time_s, who, ended_at=ended_at)

    def stop_at_limit(self, run_id: int) -> bool:
        """Request the end of a run that reached its time limit; False if it is already ending."""
        with self.db.change() as connection:
            status = self._changes.status(run_id)
            if status not in ("starting", "running"):
                return False
            (limit,) = connection.execute("SELECT max_run_time_s FROM runs WHERE id = ?", [run_id]).fetchone()
            self._changes.cancel(run_id, status, TIME_LIMIT, "time limit", f"{limit:,.12g} s")
        return True

    def lose(self, run_id: int, cause: str, *, resumes: bool) -> int | None:
        """End a live run as lost and, in the same transaction, retry it if it has retries left; return the new run's
        id.

        The new run continues from this one's checkpoint if it `resumes`, otherwise it starts over; a command needs its
        owner's permission again. If the run has already ended, nothing is written.
        """
        with self.db.change():
            run = self._runs.one(run_id)
            if run.status not in ALIVE:
                return None
            next_id = None
            if run.attempt < run.terms.max_retries and not run.stop_requested_by:
                if refusal := self._refused(run, "automatic retry"):
                    cause = f"{cause} It is not tried again: {refusal}"
                else:
                    next_id = self._try_again(run, resumes)
                    cause = f"{cause} It is tried again as run {next_id}, {_way(resumes)}."
            self._end(run_id, "lost", cause, execution_time_s=recorded_s(run))
        return next_id

    def _refused(self, run: Run, what: str) -> str:
        """Return why code of the lab's own is not started, noted in the audit log: its owner may not run commands any
        more. Empty for owners without an account, whose commands the home's owner launched.
        """
        if not (run.command or is_own(run)) or not self.db.exists("SELECT 1 FROM people WHERE name = ?", [run.owner]):
            return ""
        authorization = Authorization(self.db)
        try:
            authorization.check("run commands", run.owner, "", [])
        except Forbidden as error:
            role = authorization.role_of(run.owner)
            authorization.audit("run commands", run.owner, role, "run", [run.id], what, str(error))
            return str(error)
        return ""

    def _try_again(self, run: Run, resumes: bool) -> int:
        again = Launch.again(run, run.owner, resumes=resumes)
        next_id = self._changes.queue(replace(again, attempt=run.attempt + 1, data_folder=run.data_folder))
        which = f"retry {run.attempt + 1} of at most {run.terms.max_retries}"
        self._changes.note_event(next_id, RETRIES, "runner", f"run {run.id} {_way(resumes)}, {which}")
        self._changes.note_event(run.id, RETRIED, "runner", f"as run {next_id}")
        return next_id

    def _end(
        self,
        run_id: int,
        status: Status,
        cause: str,
        error: str = "",
        execution_time_s: float | None = None,
        who: str = "runner",
        allowed: Sequence[Status] = ALIVE,
        ended_at: str | None = None,
    ) -> bool:
        """Write a run's end; False if its status is not among those allowed."""
        with self.db.change() as connection:
            if self._changes.status(run_id) not in allowed:
                return False
            connection.execute(
                "UPDATE runs SET status = ?, cause = ?, error = ?, ended_at = ?,"
                " execution_time_s = coalesce(?, execution_time_s) WHERE id = ?",
                [status, storable(cause), storable(error), ended_at or now(), execution_time_s, run_id],
            )
            done = "'done', 'failed', 'ended'"
            connection.execute(f"UPDATE ranks SET state = 'ended' WHERE run_id = ? AND state NOT IN ({done})", [run_id])
            self._changes.note_event(run_id, status, who, cause)
            self.db.touch(run_id)
            if status in BAD_ENDS:
                stop_after_failures(self._changes, run_id)
            self._notices.tell_end(run_id)
        return True


def recorded_s(run: Run) -> float | None:
    """Return the execution time of a lost run, up to the last sign of its worker."""
    if run.started_at is None or run.heartbeat_at is None or run.execution_time_s is not None:
        return None
    return run.time_before_s + max(0.0, seconds_since(run.started_at, run.heartbeat_at))


def _way(resumes: bool) -> str:
    return "from its last checkpoint" if resumes else "from the start"


# ---- Disk usage of each run: its folder, as measured by the runner, its points and its texts in the store ----------
# A person's usage is the sum of these rows.

_CHANGED = (
    "SELECT id, version FROM runs WHERE version > (SELECT coalesce(max(version), 0) FROM disk) ORDER BY version LIMIT ?"
)
_NOTE = (
    "INSERT INTO disk (run_id, version, file_bytes, point_bytes, text_bytes) SELECT id, ?2, ?3,"
    f" {POINT_BYTES} * (SELECT coalesce(sum(count + nonfinite - thinned), 0) FROM metrics WHERE run_id = "
    f"runs.id), {TEXT_BYTES} FROM runs WHERE id = ?1"
    " ON CONFLICT (run_id) DO UPDATE SET version = excluded.version, file_bytes = excluded.file_bytes, "
    "point_bytes = excluded.point_bytes,"
    " text_bytes = excluded.text_bytes"
)


@dataclass(frozen=True)
class Changed:
    """A run written to since its last measurement."""

    run_id: int
    version: int
    """Its change token at that time."""


class DiskCommands:
    """The runner's commands of disk usage."""

    def __init__(self, db: WriteConnection) -> None:
        self.db = db

    def unmeasured(self, most: int) -> list[Changed]:
        """Return runs written to since the last measurement, the least recently written first.

        Change tokens only grow, and runs are measured in their order: runs with a token above the highest measured one
        are unmeasured.
        """
        return [Changed(row["id"], row["version"]) for row in self.db.rows(_CHANGED, [most])]

    def note(self, measured: Sequence[tuple[Changed, int]]) -> None:
        """Store the measured bytes of some runs' folders; the tokens are those from before the measurement, so that
        later writes are not missed.
        """
        with self.db.change() as connection:
            connection.executemany(_NOTE, [(run.run_id, run.version, size) for run, size in measured])
