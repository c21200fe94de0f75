"""Launch and cancel of runs. Each command is one short transaction with its event."""

from collections.abc import Mapping
from typing import Any

from engine.access.confusables import visible
from engine.errors import ConfigError, Problem, WrongStatus
from engine.launch_options import USUAL, LaunchOptions
from engine.store.access.authorization import command, storable
from engine.store.access.quotas import QuotaChecks
from engine.store.connection import WriteConnection
from engine.store.records import ENDED, RESUMED, RETRIED, RETRIES, Demand, Status
from engine.store.runs.changes import RunChanges
from engine.store.runs.idempotency_keys import IdempotencyKeys, LaunchKey
from engine.store.timestamps import now

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
