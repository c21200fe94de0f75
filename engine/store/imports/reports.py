"""Runs that a program outside of Parallab reports: it began without the runner and has no worker, slots or ranks.

Each process of such a program counts its rows. A report names the number of rows before its first one, so that one that
is sent again is acknowledged and stored once. Silence makes the run lost; the next report lets it go on.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from engine.errors import ConfigError, WrongStatus, counted
from engine.recorder import Point
from engine.store.access.authorization import command, storable
from engine.store.access.quotas import QuotaChecks
from engine.store.connection import Row, WriteConnection
from engine.store.curves.ingest import POINT_BYTES
from engine.store.queue.claims import ClaimCommands, recorded_s
from engine.store.records import ENDED, MISSED_S, Status
from engine.store.runs.commands import RunChanges
from engine.store.runs.reader import RunReader
from engine.store.runs.rows import APPENDED, SLOTS
from engine.store.schema.config_text import keep_whole, listed, replace_config
from engine.store.timestamps import in_seconds, now, seconds_since, to_the_second
from engine.store.worker_writes import write_points

SILENT_S = 120.0
"""Time without a report after which a run is lost."""
MOST_WRITERS = 1_000
"""Processes that may report to one run."""
MOST_METRICS = 2_000
"""Per run, as of an import."""
_RUN = "SELECT id, owner, status, report_key, started_at, heartbeat_at FROM runs WHERE id = ?"
_SILENT = "SELECT id FROM runs WHERE status = 'running' AND report_key IS NOT NULL AND heartbeat_at < ?"
_UNMEASURED = (
    f"SELECT {POINT_BYTES} * last_point_id - coalesce((SELECT point_bytes FROM disk WHERE run_id = id), 0) FROM runs "
    "WHERE id = ?"
)
"""Bytes of a run's points that the runner has not measured yet."""


@dataclass(frozen=True)
class ReportedRun:
    """A run as its program begins it; names are as pages show them."""

    experiment: str
    key: str
    """What the program calls it: the same key of a person is the same run."""
    name: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    tags: Sequence[str] = ()
    note: str = ""


@dataclass(frozen=True)
class ReportedEnd:
    """The end of a run in the words of its program."""

    status: Literal["finished", "failed"]
    cause: str = ""
    error: str = ""
    """Traceback behind the cause."""
    time_s: float | None = None
    """Execution time by the program's clock; None for the store's."""


@dataclass(frozen=True)
class Report:
    """What one process has recorded since its last report."""

    rows: Sequence[Sequence[Point]] = ()
    """Points that were recorded together."""
    offset: int = 0
    """Rows of the process before these."""
    writer: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)
    """New and changed settings."""
    dropped: int = 0
    """Rows that it has dropped so far."""
    end: ReportedEnd | None = None


@dataclass(frozen=True)
class Receipt:
    """What the store holds of a process once its report is committed."""

    id: int
    status: Status
    rows: int
    """Rows of the process in the store: the offset of its next report."""
    elapsed_s: float
    """Seconds since the run began, by the store's clock."""


class ReportCommands:
    """Commands of programs outside of Parallab, and the runner's of those that fell silent."""

    def __init__(self, db: WriteConnection) -> None:
        self.db = db
        self._changes = RunChanges(db)
        self._claims = ClaimCommands(db)
        self._quotas = QuotaChecks(db)
        self._runs = RunReader(db)

    @command("record", "run", lambda _, given: [])
    def begin(self, run: ReportedRun, *, by: str) -> int:
        """Add a run that its program is executing and return its id; one that has its key is returned with these
        settings.

        Raises LimitReached, ConfigError, and WrongStatus if the run of that key has finished or failed.
        """
        with self.db.change() as connection:
            there = self.db.row("SELECT id, status FROM runs WHERE owner = ? AND report_key = ?", [by, run.key])
            if there is not None:
                if there["status"] in ENDED and there["status"] != "lost":
                    raise WrongStatus(
                        f"The key '{run.key}' is that of run {there['id']}, which has {there['status']}. Use a new key."
                    )
                self._set_config(there["id"], run.config)
                return int(there["id"])
            self._quotas.require_reported(by)
            at, config = now(), json.dumps(run.config)
            texts = {"experiment": run.experiment, "name": run.name, "report_key": run.key}
            run_id = self.db.insert(
                "runs",
                {
                    **{name: storable(text) for name, text in texts.items()},
                    "owner": by,
                    "status": "running",
                    "config": listed(config),
                    **dict.fromkeys(("created_at", "begun_at", "started_at", "heartbeat_at"), at),
                    "environment": json.dumps(run.environment),
                    **dict.fromkeys(SLOTS, 0),
                },
                **APPENDED,
            )
            keep_whole(connection, run_id, config)
            connection.executemany(
                "INSERT OR IGNORE INTO tags (run_id, tag) VALUES (?, ?)", [(run_id, storable(tag)) for tag in run.tags]
            )
            if run.note:
                self.db.insert("notes", {"run_id": run_id, "text": storable(run.note), "author": by, "at": at})
            where = f" on {host}" if (host := run.environment.get("host")) else ""
            self._changes.keep_agent(run_id)
            self._changes.note_event(run_id, "running", by, f"reported by a program{where}")
        return run_id

    @command("report", "run", is_recorded=lambda given: given["report"].end is not None)
    def report(self, run_id: int, report: Report, *, by: str) -> Receipt:
        """Store what a process has recorded, all or nothing; rows that are there already are not stored again, and a
        lost run goes on.

        Raises NoSuchRun, WrongStatus for another kind of run, for one that has ended and for a gap in the rows,
        LimitReached, ConfigError for too many metrics or settings.
        """
        with self.db.change() as connection:
            run = self._one(run_id)
            known, dropped = self._writer(run_id, report.writer)
            fresh = report.rows[max(0, known - report.offset) :]
            if run["status"] in ENDED and run["status"] != "lost":
                if fresh or (report.end and report.end.status != run["status"]):
                    raise WrongStatus(f"Run {run_id} has {run['status']}: nothing more can be reported to it.")
                return Receipt(run_id, run["status"], known, seconds_since(run["started_at"]))
            if report.rows and report.offset > known:
                raise WrongStatus(
                    f"Run {run_id} has {known:,} rows of this process, so offset must be at most {known}; got "
                    f"{report.offset}. Send the rows from {known} on."
                )
            if run["status"] == "lost":
                self._go_on(run, by)
            self._store(run, [point for row in fresh for point in row])
            self._set_config(run_id, report.config)
            if report.dropped > dropped == 0:
                what = f"Its program dropped {counted(report.dropped, 'row')}, which its buffer could not hold."
                self._changes.note_event(run_id, "dropped", by, what)
            connection.execute(
                "INSERT OR REPLACE INTO report_writers (run_id, writer, rows, dropped) VALUES (?, ?, ?, ?)",
                [run_id, storable(report.writer), known + len(fresh), max(dropped, report.dropped)],
            )
            connection.execute("UPDATE runs SET heartbeat_at = ? WHERE id = ?", [now(), run_id])
            if report.end:
                self._end(run, report.end, by)
            if fresh or seconds_since(run["heartbeat_at"]) > MISSED_S:
                self.db.touch(run_id)
            status = report.end.status if report.end else "running"
            return Receipt(run_id, status, known + len(fresh), seconds_since(run["started_at"]))

    def are_on(self) -> bool:
        """Return whether any reported run is running."""
        return self.db.exists("SELECT 1 FROM runs WHERE status = 'running' AND report_key IS NOT NULL LIMIT 1")

    def renew_silent(self) -> None:
        """Let open pages show again how long ago the last report of each silent run was."""
        for run_id in self.db.column(_SILENT, [in_seconds(-MISSED_S)]):
            with self.db.change():
                self.db.touch(run_id)

    def lose_silent(self, silent_s: float = SILENT_S) -> list[int]:
        """End as lost the reported runs without a report for `silent_s`, and return them."""
        lost = []
        for run_id in self.db.column(_SILENT, [in_seconds(-silent_s)]):
            with self.db.change():
                run = self._runs.one(run_id)
                if run.status != "running" or (run.heartbeat_at or "") >= in_seconds(-silent_s):
                    continue  # it reported this moment
                cause = (
                    f"Its program stopped reporting: the last report came at {to_the_second(run.heartbeat_at or '')}, "
                    f"and none for {silent_s:g} s. If it reports again, the run continues."
                )
                time_s = recorded_s(run)
                self._claims.end(run_id, "lost", cause, execution_time_s=time_s, ended_at=run.heartbeat_at)
                lost.append(run_id)
        return lost

    def _one(self, run_id: int) -> Row:
        run = self.db.row(_RUN, [run_id])
        if run is None:
            raise self.db.no_such_run(run_id)
        if run["report_key"] is None:
            raise WrongStatus(f"Run {run_id} is one of Parallab's own, so no program can report to it.")
        return run

    def _writer(self, run_id: int, writer: str) -> tuple[int, int]:
        """Return the rows of a process that the store has, and those that it dropped."""
        sql = "SELECT rows, dropped FROM report_writers WHERE run_id = ? AND writer = ?"
        if row := self.db.row(sql, [run_id, storable(writer)]):
            return row["rows"], row["dropped"]
        if self.db.number("SELECT count(*) FROM report_writers WHERE run_id = ?", [run_id]) >= MOST_WRITERS:
            raise ConfigError.of(
                "writer", f"At most {MOST_WRITERS:,} processes can report to a run. Begin another run."
            )
        return 0, 0

    def _go_on(self, run: Row, by: str) -> None:
        self.db.connection.execute(
            "UPDATE runs SET status = 'running', cause = '', error = '', ended_at = NULL, execution_time_s = NULL "
            "WHERE id = ?",
            [run["id"]],
        )
        last = to_the_second(run["heartbeat_at"])
        self._changes.note_event(run["id"], "running", by, f"reported again; the last report was at {last}")
        self.db.touch(run["id"])

    def _store(self, run: Row, points: Sequence[Point]) -> None:
        if not points:
            return
        unmeasured = self.db.number(_UNMEASURED, [run["id"]])
        self._quotas.require_disk(run["owner"], POINT_BYTES * len(points) + max(0, unmeasured))
        write_points(self.db.connection, run["id"], [(None, points)])
        metrics = self.db.number("SELECT count(*) FROM metrics WHERE run_id = ?", [run["id"]])
        if metrics > MOST_METRICS:
            sentence = f"A run can have at most {MOST_METRICS:,} metrics; this one would have {metrics:,}."
            raise ConfigError.of("rows", f"{sentence} Log fewer names.")

    def _set_config(self, run_id: int, changes: Mapping[str, Any]) -> None:
        before = self._runs.one(run_id).config if changes else {}
        if (config := {**before, **changes}) != before:
            replace_config(self.db.connection, run_id, json.dumps(config))
            self.db.touch(run_id)

    def _end(self, run: Row, end: ReportedEnd, by: str) -> None:
        usual = "Finished, as its program reported." if end.status == "finished" else "Its program reported a failure."
        sql = "SELECT sum(dropped) FROM report_writers WHERE run_id = ?"
        lacking = self.db.number(sql, [run["id"]])
        more = f" {counted(lacking, 'row')} of its program are missing: its buffer was full." if lacking else ""
        time_s = seconds_since(run["started_at"]) if end.time_s is None else end.time_s
        self._claims.end(
            run["id"], end.status, f"{end.cause or usual}{more}", error=end.error, execution_time_s=time_s, who=by
        )
