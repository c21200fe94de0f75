"""Changes to one run that several commands share: queue, cancel, record an event.

They run within the change of a command, which has checked permissions.
"""

import json
from collections.abc import Mapping
from typing import Any

from engine.home import named_data
from engine.launch_options import PRIORITIES, USUAL, LaunchOptions
from engine.seeding import SEEDING
from engine.store.access.authorization import Authorization, storable
from engine.store.access.quotas import QuotaChecks
from engine.store.connection import Row, WriteConnection
from engine.store.notices.outbox import NoticeWriter
from engine.store.records import Demand, Status, StopKind
from engine.store.schema.config_text import keep_whole, listed
from engine.store.timestamps import now


class RunChanges:
    """Changes to one run within another command's change; permissions are not checked here."""

    def __init__(self, db: WriteConnection) -> None:
        self.db = db
        self._quota_checks = QuotaChecks(db)
        self._notices = NoticeWriter(db)
        self._authorization = Authorization(db)

    def status(self, run_id: int) -> Status:
        """Return the status of a run within this change; raises NoSuchRun."""
        found: Row | None = self.db.connection.execute("SELECT status FROM runs WHERE id = ?", [run_id]).fetchone()
        if found is None:
            raise self.db.no_such_run(run_id)
        status: Status = found["status"]
        return status

    def note_event(self, run_id: int, kind: str, who: str, detail: str) -> None:
        """Record an event, within a change."""
        self.db.connection.execute(
            "INSERT INTO events (run_id, at, kind, who, detail) VALUES (?, ?, ?, ?, ?)",
            [run_id, now(), kind, who, storable(detail)],
        )

    def queue(
        self,
        experiment: str,
        config: Mapping[str, Any],
        *,
        owner: str,
        demand: Demand,
        preset: str | None,
        name: str,
        parent_id: int | None = None,
        sweep_id: int | None = None,
        resumes: bool = True,
        terms: LaunchOptions = USUAL,
        attempt: int = 0,
        data_folder: str | None = None,
    ) -> int:
        """Append one run to the queue, within a change; its time limit is at most its owner's quota.

        Its data folder is the given one, otherwise that of this process's environment, otherwise its parent's. No
        network request can set it.
        """
        terms = self._quota_checks.cut(terms, owner)
        data_folder = data_folder or named_data() or self._data_folder(parent_id)
        whole = json.dumps(dict(config))
        cursor = self.db.connection.execute(
            "INSERT INTO runs"
            " (experiment, preset, name, owner, status, config, cores, gpus, ranks, threads_per_rank, "
            "parent_id, sweep_id, created_at,"
            " priority, oversubscribe, max_run_time_s, max_retries, end_when_hung, target, nodes, resumes, attempt,"
            " seeding, data_folder, place, version)"
            " VALUES (?, ?, ?, ?, 'queued', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,"
            " (SELECT coalesce(max(place), 0) + 1 FROM runs), (SELECT coalesce(max(version), 0) + 1 FROM runs))",
            [
                *(experiment, preset, name, owner, listed(whole)),
                *(demand.cores, demand.gpus, demand.ranks, demand.threads_per_rank, parent_id, sweep_id, now()),
                *(
                    PRIORITIES.index(terms.priority),
                    terms.oversubscribe,
                    terms.max_run_time_s,
                    terms.max_retries,
                    terms.end_when_hung,
                    terms.target,
                    terms.nodes,
                    resumes,
                    attempt,
                    SEEDING,
                    data_folder,
                ),
            ],
        )
        run_id = cursor.lastrowid
        assert run_id is not None
        keep_whole(self.db.connection, run_id, whole)
        self.note_event(run_id, "queued", owner, f"{demand.ranks} ranks, {demand.cores} cores, {demand.gpus} GPUs")
        return run_id

    def _data_folder(self, run_id: int | None) -> str | None:
        row = self.db.row("SELECT data_folder FROM runs WHERE id = ?", [run_id])
        return row["data_folder"] if row else None

    def cancel(self, run_id: int, status: Status, by: str, kind: StopKind = "cancel", detail: str = "") -> Status:
        """Cancel a queued run, or set a live one to stopping, within a change; return its new status.

        A stopping run is unchanged, except for a first force.
        """
        if status == "stopping":
            if kind == "force":
                self._force(run_id, by)
            return status
        if status == "queued":
            self.mark_cancelled(run_id, f"Cancelled by {by}.")
        else:
            self.db.connection.execute("UPDATE runs SET status = 'stopping' WHERE id = ?", [run_id])
        self.db.connection.execute(
            "UPDATE runs SET stop_requested_at = ?, stop_requested_by = ?, stop_kind = ? WHERE id = ?",
            [now(), by, kind, run_id],
        )
        new: Status = "cancelled" if status == "queued" else "stopping"
        self.note_event(run_id, new, by, detail or ("by force" if kind == "force" else ""))
        self.db.touch(run_id)
        if new == "cancelled":
            self._notices.tell_end(run_id)
        return new

    def mark_cancelled(self, run_id: int, cause: str) -> None:
        """End a queued run, within a change; the caller writes the event and the change token."""
        sql = "UPDATE runs SET status = 'cancelled', cause = ?, ended_at = ? WHERE id = ?"
        self.db.connection.execute(sql, [cause, now(), run_id])

    def _force(self, run_id: int, by: str) -> None:
        sql = "UPDATE runs SET stop_kind = 'force', stop_requested_by = ? WHERE id = ? AND stop_kind <> 'force'"
        if self.db.connection.execute(sql, [by, run_id]).rowcount:
            self.note_event(run_id, "forced", by, "")
            self.db.touch(run_id)

    def may_prefer(self, terms: LaunchOptions, by: str) -> None:
        """Raise Forbidden if runs would pass others and the person may not do that."""
        if terms.priority == PRIORITIES[-1]:
            self._authorization.check("prefer", by, "", [])
