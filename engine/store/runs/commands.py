"""Launch and cancel of runs. Each command is one short transaction with its event."""

import json
from collections.abc import Sequence
from dataclasses import replace

from engine.access.agents import acting_agent
from engine.access.confusables import visible
from engine.errors import ConfigError, WrongStatus, counted
from engine.filter.tree import duration
from engine.home import named_data
from engine.launch_options import PRIORITIES
from engine.registry import experiment, is_own, is_registered
from engine.seeding import SEEDING
from engine.store.access.authorization import Authorization, command, storable
from engine.store.access.quotas import QuotaChecks
from engine.store.connection import Row, WriteConnection
from engine.store.exercises import LaunchChecks
from engine.store.launches import Launch, LaunchKey
from engine.store.notices.outbox import NoticeWriter
from engine.store.records import ENDED, RESUMED, RETRIED, RETRIES, Status, StopKind
from engine.store.runs.reader import RunReader
from engine.store.runs.rows import APPENDED, OPTIONS, SLOTS
from engine.store.schema.config_text import keep_whole, listed
from engine.store.scripts import keep_command
from engine.store.timestamps import LEAST_WAIT_S, in_seconds, now, seconds_since

KEPT_S = 7 * 24 * 3600.0
"""Lifetime of an idempotency key; a later retry launches again."""
TAG_LENGTH = 40
NAME_LENGTH = 200
NOTE_LENGTH = 20_000
OUTSIDE = "a program that Parallab did not start reports it."
SHORTEST_TRACE_S, LONGEST_TRACE_S = 0.1, 60.0
_LAUNCHED = ("experiment", "preset", "name", "owner", "parent_id", "sweep_id", "resumes", "attempt")
"""Fields of a launch with a column of their name."""


class RunCommands:
    """Commands of runs."""

    def __init__(self, db: WriteConnection) -> None:
        self.db = db
        self._changes = RunChanges(db)
        self._runs = RunReader(db)

    @command(
        lambda given: "launch" if given.get("parent_id") is None else "retry",
        "run",
        lambda _, given: _known(given.get("parent_id")),
    )
    def add(self, launch: Launch, once: LaunchKey | None = None) -> int:
        """Queue a run and return its id.

        A repeat of a sweep's run belongs to that sweep too. A key that was used before launches nothing: its run is
        returned. Raises NoSuchRun for an unknown parent, ConfigError for a key of another launch, LimitReached.
        """
        owner, parent_id = launch.owner, launch.parent_id
        with self.db.change():
            if once and (there := self._changes.launched_under(once, owner)) is not None:
                return there
            self._changes.may_queue([launch], wanted_s=launch.terms.max_run_time_s if parent_id is None else None)
            if parent_id is None:
                run_id = self._changes.queue(launch)
            else:
                parent = self._runs.one(parent_id)
                run_id = self._changes.queue(replace(launch, sweep_id=None if launch.resumes else parent.sweep_id))
                self._changes.note_event(parent_id, RESUMED if launch.resumes else RETRIED, owner, f"as run {run_id}")
                self.db.touch(parent_id)
                if not launch.resumes:
                    self._changes.note_event(run_id, RETRIES, owner, f"run {parent_id} from the start")
            if once:
                self._changes.keep_key(once, owner, run_id)
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
            if self._runs.one(run_id).reported:
                raise WrongStatus(f"Run {run_id} can't be cancelled here: {OUTSIDE} End the program itself.")
            return self._changes.cancel(run_id, status, by, "force" if force else "cancel")

    @command("delete", "run")
    def permit_deletion(self, run_ids: Sequence[int], *, by: str) -> None:
        """Authorize and record the deletion of runs, which takes many changes (engine.upkeep.retention_policy)."""

    @command("trace", "run")
    def trace(self, run_id: int, seconds: float, *, by: str) -> None:
        """Ask the worker of a running run to store all operations of the next seconds.

        Raises NoSuchRun, WrongStatus if it isn't running, ConfigError for less than 0.1 or more than 60 seconds.
        """
        if not SHORTEST_TRACE_S <= seconds <= LONGEST_TRACE_S:
            what = f"seconds must be from {SHORTEST_TRACE_S:g} to {LONGEST_TRACE_S:g}, got {seconds:g}."
            raise ConfigError.of("seconds", what)
        with self.db.change():
            if (status := self._changes.status(run_id)) != "running":
                raise WrongStatus(f"Run {run_id} is {status}: operations can be stored while a run is running.")
            if self._runs.one(run_id).reported:
                raise WrongStatus(f"Operations of run {run_id} can't be stored: {OUTSIDE}")
            asked = {"run_id": run_id, "seconds": seconds, "requested_by": by, "requested_at": now()}
            self.db.insert("trace_requests", asked)
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
        raise ConfigError.of("tag", f"tag must have 1 to {TAG_LENGTH} characters; got ''.")
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
        raise ConfigError.of(field, f"{field} must have at most {most:,} characters; got {len(text):,}. Shorten it.")
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
        self._exercises = LaunchChecks(db)

    def status(self, run_id: int) -> Status:
        """Return the status of a run within this change; raises NoSuchRun."""
        found: Row | None = self.db.connection.execute("SELECT status FROM runs WHERE id = ?", [run_id]).fetchone()
        if found is None:
            raise self.db.no_such_run(run_id)
        status: Status = found["status"]
        return status

    def waited(self, run_id: int, reason: str = "") -> str:
        """Return how long a run that starts now was in the queue, and why last, as the end of its event; empty for one
        that started at once.
        """
        waited_s = seconds_since(RunReader(self.db).one(run_id).created_at)
        why = f", last {reason.removeprefix('waits ')}" if reason else ""
        return f"; waited {duration(waited_s)}{why}" if waited_s >= LEAST_WAIT_S else ""

    def note_event(self, run_id: int, kind: str, who: str, detail: str) -> None:
        """Record an event, within a change; that of an agent names it."""
        detail = ", ".join(filter(None, (detail, agent.words))) if (agent := acting_agent()) else detail
        told = {"run_id": run_id, "at": now(), "kind": kind, "who": who, "detail": storable(detail)}
        self.db.insert("events", told)

    def launched_under(self, key: LaunchKey, owner: str) -> int | None:
        """Return the run, or the first run of a sweep, that a person launched with a key, None if there is none; raises
        ConfigError if the request was different.
        """
        row = self.db.row("SELECT run_id, asked FROM launch_keys WHERE owner = ? AND key = ?", [owner, key.text])
        if row is None:
            return None
        if row["asked"] != key.asked:
            sentence = f"Idempotency-Key was already used for run {row['run_id']} with other settings. Use a new key."
            raise ConfigError.of("Idempotency-Key", sentence)
        return int(row["run_id"])

    def keep_key(self, key: LaunchKey, owner: str, run_id: int) -> None:
        """Remember what was launched with a key, within a change; keys that are too old are forgotten."""
        self.db.connection.execute("DELETE FROM launch_keys WHERE made_at < ?", [in_seconds(-KEPT_S)])
        request = {"owner": owner, "key": key.text, "asked": key.asked, "run_id": run_id}
        self.db.insert("launch_keys", {**request, "made_at": now()})

    def may_queue(self, launches: Sequence[Launch], wanted_s: float | None = None) -> None:
        """Raise Forbidden if their owner may not queue these runs, as they would pass others or run a command, or for a
        quota.

        `wanted_s` is the requested time limit; None for that of an older run, which is reduced to the quota.
        """
        owner = launches[0].owner
        if any(each.terms.priority == PRIORITIES[-1] for each in launches):
            self._authorization.check("prefer", owner, "", [])
        if any(each.command for each in launches) and is_registered(name := launches[0].experiment):
            sentence = f"'{name}' is an experiment of Parallab, so no run of a command can be called so."
            raise ConfigError.of("command", f"{sentence} Rename the script, or save the command as a recipe.")
        own = [each for each in launches if is_own(each)]
        if own or any(each.command for each in launches):
            self._authorization.check("run commands", owner, "", [])
        for name, code in {(each.experiment, str(each.config.get("code"))) for each in own}:
            experiment(name, code)  # raises MethodFault for a version that is not approved
        if (attempt_id := launches[0].attempt_id) is not None:
            self._exercises.require(attempt_id, owner)
        self._quota_checks.require(owner, [each.demand for each in launches], wanted_s)

    def queue(self, launch: Launch) -> int:
        """Append one run to the queue, within a change; its time limit is at most its owner's quota.

        No network request can set its data folder.
        """
        terms, demand = self._quota_checks.cut(launch.terms, launch.owner), launch.demand
        if not demand.ranks:
            raise ValueError("The launch names no ranks: engine.launch finds its demand before it is queued.")
        whole = json.dumps(dict(launch.config))
        run_id = self.db.insert(
            "runs",
            {
                **{name: getattr(launch, name) for name in _LAUNCHED},
                **{name: getattr(terms, name) for name in OPTIONS},
                **{name: getattr(demand, name) for name in SLOTS},
                "status": "queued",
                "config": listed(whole),
                "created_at": now(),
                "priority": PRIORITIES.index(terms.priority),
                "seeding": SEEDING,
                "command_id": keep_command(self.db, launch.command, launch.experiment),
                "data_folder": launch.data_folder or named_data() or self._data_folder(launch.parent_id),
            },
            **APPENDED,
        )
        keep_whole(self.db.connection, run_id, whole)
        if launch.cloned_from is not None:
            sql = "INSERT INTO clones SELECT ?, id FROM runs WHERE id = ?"  # a link may name a run that is not there
            if self.db.connection.execute(sql, [run_id, launch.cloned_from]).rowcount:
                self.db.touch(launch.cloned_from)
        told = ", ".join(
            counted(count, noun)
            for count, noun in ((demand.ranks, "rank"), (demand.cores, "core"), (demand.gpus, "GPU"))
        )
        self.note_event(run_id, "queued", launch.owner, told)
        self.keep_agent(run_id, launch.parent_id if launch.attempt else None)
        self._exercises.keep(run_id, launch.attempt_id, launch.sweep_id, launch.parent_id)
        return run_id

    def keep_agent(self, run_id: int, retried: int | None = None) -> None:
        """Record the agent that launched a run; the runner's retry of a lost one is its agent's too."""
        if agent := acting_agent():
            self.db.insert("agent_launches", {"run_id": run_id, "token_id": agent.token_id, "agent": agent.name})
        elif retried:
            sql = "INSERT INTO agent_launches SELECT ?, token_id, agent FROM agent_launches WHERE run_id = ?"
            self.db.connection.execute(sql, [run_id, retried])

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
