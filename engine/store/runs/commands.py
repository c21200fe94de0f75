"""Launch and cancel of runs. Each command is one short transaction with its event."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.access.confusables import visible
from engine.errors import ConfigError, Problem, WrongStatus
from engine.home import named_data
from engine.launch_options import PRIORITIES, USUAL, LaunchOptions
from engine.seeding import SEEDING
from engine.store.access.authorization import Authorization, command, storable
from engine.store.access.quotas import QuotaChecks
from engine.store.connection import Row, WriteConnection
from engine.store.notices.outbox import NoticeWriter
from engine.store.records import ENDED, RESUMED, RETRIED, RETRIES, Demand, Status, StopKind
from engine.store.schema.config_text import keep_whole, listed
from engine.store.timestamps import in_seconds, now

# ---- Idempotency keys of launches: a repeated request launches once ------------------------------------------------

KEPT_S = 7 * 24 * 3600.0
"""Lifetime of a key; a later retry launches again."""
LONGEST_KEY = 200


@dataclass(frozen=True)
class LaunchKey:
    """A script's key of one launch, and a digest of the request."""

    text: str
    asked: str

    @classmethod
    def of(cls, text: str, asked: Mapping[str, Any]) -> "LaunchKey":
        """Return the key of a launch; raises ConfigError for an empty, too long or unprintable one."""
        if not (0 < len(text) <= LONGEST_KEY and text.isprintable()):
            raise ConfigError(
                [
                    Problem(
                        "Idempotency-Key",
                        f"Idempotency-Key must have 1 to {LONGEST_KEY} printable characters; got {len(text)}.",
                    )
                ]
            )
        return cls(
            text,
            hashlib.sha256(
                json.dumps(asked, sort_keys=True, default=str).encode("utf-8", "backslashreplace")
            ).hexdigest(),
        )


class IdempotencyKeys:
    """Reads and writes of a launch with a key, within its change."""

    def __init__(self, db: WriteConnection) -> None:
        self.db = db

    def launched_under(self, key: LaunchKey, owner: str) -> int | None:
        """Return the run that a person launched with a key, None if there is none; raises ConfigError if the request
        was different.
        """
        row = self.db.row("SELECT run_id, asked FROM launch_keys WHERE owner = ? AND key = ?", [owner, key.text])
        if row is None:
            return None
        if row["asked"] != key.asked:
            sentence = f"Idempotency-Key was already used for run {row['run_id']} with other settings. Use a new key."
            raise ConfigError([Problem("Idempotency-Key", sentence)])
        return int(row["run_id"])

    def keep(self, key: LaunchKey, owner: str, run_id: int) -> None:
        """Store the run of a key, and delete expired keys."""
        self.db.connection.execute("DELETE FROM launch_keys WHERE made_at < ?", [in_seconds(-KEPT_S)])
        sql = "INSERT INTO launch_keys (owner, key, asked, run_id, made_at) VALUES (?, ?, ?, ?, ?)"
        self.db.connection.execute(sql, [owner, key.text, key.asked, run_id, now()])


# ---- Commands ------------------------------------------------------------------------------------------------------

TAG_LENGTH = 40
NAME_LENGTH = 200
NOTE_LENGTH = 20_000
SHORTEST_TRACE_S, LONGEST_TRACE_S = 0.1, 60.0


class RunCommands:
    """Commands of runs."""

    def __init__(self, db: WriteConnection) -> None:
        self.db = db
        self._keys = IdempotencyKeys(db)
        self._changes = RunChanges(db)
        self._quota_checks = QuotaChecks(db)

    @command(
        lambda given: "launch" if given.get("parent_id") is None else "retry",
        "run",
        lambda _, given: _known(given.get("parent_id")),
    )
    def add(
        self,
        experiment: str,
        config: Mapping[str, Any],
        *,
        owner: str,
        demand: Demand,
        preset: str | None = None,
        name: str = "",
        parent_id: int | None = None,
        resumes: bool = True,
        terms: LaunchOptions = USUAL,
        once: LaunchKey | None = None,
    ) -> int:
        """Queue a run and return its id; `parent_id` is the run that it resumes, or without `resumes` repeats from the
        start.

        A repeat of a sweep's run belongs to that sweep too. A key that was used before launches nothing: its run is
        returned. Raises NoSuchRun for an unknown parent, ConfigError for a key of another launch, LimitReached.
        """
        with self.db.change():
            if once and (there := self._keys.launched_under(once, owner)) is not None:
                return there
            self._changes.may_prefer(terms, owner)
            self._quota_checks.require(owner, [demand], terms.max_run_time_s if parent_id is None else None)
            sweep_id = None
            if parent_id is not None:
                self._changes.status(parent_id)
                sweep_id = (
                    None
                    if resumes
                    else self.db.connection.execute("SELECT sweep_id FROM runs WHERE id = ?", [parent_id]).fetchone()[0]
                )
            run_id = self._changes.queue(
                experiment,
                config,
                owner=owner,
                demand=demand,
                preset=preset,
                name=name,
                parent_id=parent_id,
                sweep_id=sweep_id,
                resumes=resumes,
                terms=terms,
            )
            if parent_id is not None:
                self._changes.note_event(parent_id, RESUMED if resumes else RETRIED, owner, f"as run {run_id}")
                self.db.touch(parent_id)
                if not resumes:
                    self._changes.note_event(run_id, RETRIES, owner, f"run {parent_id} from the start")
            if once:
                self._keys.keep(once, owner, run_id)
        return run_id

    @command("cancel", "run")
    def cancel(self, run_id: int, *, by: str, force: bool = False) -> Status:
        """Request the run's end: a queued one is cancelled at once, a live one is stopping. Returns the new status.

        `force` kills its processes at once, also for a stopping run. Raises NoSuchRun, WrongStatus if it has ended.
        Repeating it changes nothing.
        """
        with self.db.change():
            status = self._changes.status(run_id)
            if status in ENDED:
                raise WrongStatus(f"Run {run_id} can't be cancelled: it is already {status}.")
            return self._changes.cancel(run_id, status, by, "force" if force else "cancel")

    @command("trace", "run")
    def trace(self, run_id: int, seconds: float, *, by: str) -> None:
        """Ask the worker of a running run to store all operations of the next seconds.

        Raises NoSuchRun, WrongStatus if it isn't running, ConfigError for less than 0.1 or more than 60 seconds.
        """
        if not SHORTEST_TRACE_S <= seconds <= LONGEST_TRACE_S:
            what = f"seconds must be from {SHORTEST_TRACE_S:g} to {LONGEST_TRACE_S:g}, got {seconds:g}."
            raise ConfigError([Problem("seconds", what)])
        with self.db.change() as connection:
            if (status := self._changes.status(run_id)) != "running":
                raise WrongStatus(f"Run {run_id} is {status}: operations can be stored while a run is running.")
            connection.execute(
                "INSERT INTO trace_requests (run_id, seconds, requested_by, requested_at) VALUES (?, ?, ?, ?)",
                [run_id, seconds, by, now()],
            )
            self._changes.note_event(run_id, "trace requested", by, f"All operations of {seconds:g} s are stored.")

    def add_event(self, run_id: int, kind: str, who: str, detail: str = "") -> None:
        """Record an event of a run."""
        with self.db.change():
            self.db.touch(run_id)
            self._changes.note_event(run_id, kind, who, detail)


def _known(run_id: int | None) -> list[object]:
    return [] if run_id is None else [run_id]


def checked_tag(tag: str) -> str:
    """Return a tag in one line; raises ConfigError as `checked_text` does, and for an empty one."""
    tag = checked_text("tag", " ".join(tag.split()), TAG_LENGTH)
    if not tag:
        raise ConfigError([Problem("tag", f"tag must have 1 to {TAG_LENGTH} characters; got ''.")])
    return tag


def checked_name(text: str) -> str:
    """Return the name of a run, sweep or duel in one line; raises ConfigError as `checked_text` does."""
    return checked_text("name", " ".join(text.split()), NAME_LENGTH)


def checked_text(field: str, text: str, most: int) -> str:
    """Return the text without surrounding spaces; raises ConfigError for a too long one or one with invisible
    characters.
    """
    text = visible(field, storable(text).strip())
    if len(text) > most:
        raise ConfigError(
            [Problem(field, f"{field} must have at most {most:,} characters; got {len(text):,}. Shorten it.")]
        )
    return text


# ---- Changes to one run that several commands share: queue, cancel, record an event --------------------------------
# They run within the change of a command, which has checked permissions.


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
