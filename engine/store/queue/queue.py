"""The queue: its order, holds, requested resources, and the commands that change them.

High priority comes before normal before low; within a priority the order is by `place`: a new run's is the highest,
unless it takes turns with others (`engine.store.exercises`), and a move assigns another one.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from engine.access.quotas import disturbed_above
from engine.errors import ConfigError, WrongStatus
from engine.launch_options import PRIORITIES, Priority, unknown_priority
from engine.store.access.authorization import command
from engine.store.connection import Connection, Row, WriteConnection
from engine.store.records import ALIVE, Demand, Run
from engine.store.runs.commands import RunChanges
from engine.store.runs.rows import NOT_HELD, NOT_PAUSED, RUN, SLOTS, as_demand, as_run
from engine.store.scripts import SCRIPT

End = Literal["front", "back"]
_ALIVE = ", ".join(f"'{status}'" for status in ALIVE)
_LIVE = f"runs.status IN ({_ALIVE})"
_WAITING = "FROM runs INDEXED BY runs_queue WHERE status = 'queued'"
"""Index hint: by default SQLite would read and sort all queued runs to find the first."""
_ORDER = "ORDER BY priority DESC, place"
_BEFORE = "(priority > ?1 OR (priority = ?1 AND place < ?2))"
"""The order of the queue, and the condition on runs before one of this priority and place; which of them may start is
decided by `engine.queue.backfill`.
"""
_READY = (
    f"{_WAITING} AND {NOT_HELD} AND target = ? AND owner NOT IN (SELECT value FROM json_each(?))"
    " AND NOT EXISTS (SELECT 1 FROM cluster_jobs WHERE run_id = runs.id)"
)
_WITHIN = (
    " AND NOT EXISTS (SELECT 1 FROM json_each(?) AS room WHERE json_extract(room.value, '$[0]') = runs.owner"
    " AND (runs.cores > max(json_extract(room.value, '$[1]'), 0) OR runs.gpus > max(json_extract(room.value, "
    "'$[2]'), 0)))"
)
"""Condition on runs: their demand fits their owner's remaining quota; without a quota the room, and so the comparison,
is NULL.
"""
_HELD_BY = f"coalesce(held_by, iif({NOT_PAUSED}, NULL, 'the pause of sweep ' || sweep_id)) AS held_by"
_SAME = (
    *("id", "experiment", "preset", "name", "owner"),
    *("created_at", "parent_id", "sweep_id", "target", "max_run_time_s"),
)
_QUEUED = (
    f"{', '.join([*_SAME, *SLOTS])}, {SCRIPT} AS script_key, config, priority, oversubscribe, {_HELD_BY},"
    " coalesce((SELECT exclusive FROM sweeps WHERE sweeps.id = runs.sweep_id), 0) AS exclusive"
)
_PAST = (
    "SELECT config, cores, gpus, execution_time_s, (julianday(ended_at) - julianday(claimed_at)) * 86400 AS seconds,"
    " EXISTS (SELECT 1 FROM metrics WHERE run_id = runs.id AND rank IS NULL AND name = 'perf/disturbance'"
    " AND last > ?4) AS disturbed FROM runs"
    f" WHERE experiment = ?1 AND {SCRIPT} = ?5 AND status = 'finished' AND (parent_id IS NULL OR NOT resumes) AND NOT "
    "oversubscribe AND claimed_at IS NOT NULL"
    " AND json_extract(environment, '$.host') IS ?2 ORDER BY id DESC LIMIT ?3"
)


@dataclass(frozen=True)
class QuotaLimits:
    """Owners whose runs may not start now, or only small ones."""

    full: Sequence[str] = ()
    """Owners whose runs are skipped."""
    room: Mapping[str, tuple[int | None, int | None]] = field(default_factory=dict)
    """Cores and GPUs that an owner's runs may still use; None for any number."""

    def asked(self, target: str) -> tuple[str, list[str]]:
        """Return a condition on the runs for a target that have no job yet, and its values."""
        values = [target, json.dumps(list(self.full))]
        if not self.room:
            return _READY, values
        return _READY + _WITHIN, [*values, json.dumps([[owner, *room] for owner, room in self.room.items()])]


ANY = QuotaLimits()


@dataclass(frozen=True)
class QueuedRun:
    """A queued run with the fields that the queue needs."""

    id: int
    experiment: str
    preset: str | None
    name: str
    owner: str
    config: Mapping[str, Any]
    demand: Demand
    priority: Priority
    held_by: str | None
    oversubscribe: bool
    created_at: str
    parent_id: int | None
    sweep_id: int | None
    exclusive: bool = False
    """Whether it needs the machine exclusively."""
    target: str = ""
    """The cluster that it is for; empty for the runner's machine."""
    max_run_time_s: float | None = None
    """Its time limit."""
    script_key: str = ""
    """What identifies the script of its command (`Command.identity`); empty without a command."""


@dataclass(frozen=True)
class PastRun:
    """Slots of a finished run, and the seconds that it held them."""

    config: Mapping[str, Any]
    cores: int
    gpus: int
    seconds: float
    disturbed: bool = False
    execution_s: float | None = None
    """Its execution time."""


class QueueReader:
    """Queries of the queue, for runner and pages."""

    def __init__(self, db: Connection) -> None:
        self.db = db

    def next(self, bounded: QuotaLimits = ANY, target: str = "") -> Run | None:
        """Return the first queued run for a target (empty: this machine) that neither a hold nor its owner's quota
        blocks, on a cluster the first without a job.
        """
        which, values = bounded.asked(target)
        row = self.db.row(f"{RUN} WHERE runs.id = (SELECT id {which} {_ORDER} LIMIT 1)", values)
        return as_run(row) if row else None

    def waiting(
        self, *, limit: int = 10_000, ready: QuotaLimits | None = None, target: str | None = None
    ) -> list[QueuedRun]:
        """Return the queued runs in order, with `target` only those for it (empty: this machine); with `ready` only
        those for this machine that neither a hold nor these quotas block.
        """
        which, values = _waiting_for(target) if ready is None else ready.asked("")
        return [_as_queued(row) for row in self.db.rows(f"SELECT {_QUEUED} {which} {_ORDER} LIMIT ?", [*values, limit])]

    def owners(self) -> list[str]:
        """Return everyone with a queued run."""
        return self.db.column("SELECT DISTINCT owner FROM runs WHERE status = 'queued'")

    def count(self, target: str | None = None) -> int:
        """Return the number of queued runs, with `target` of those for it (empty: this machine), including held
        ones.
        """
        which, values = _waiting_for(target)
        return self.db.number(f"SELECT count(*) AS n {which}", values)

    def count_held(self, target: str | None = None) -> int:
        """Return the number of these on hold, by a person or by their sweep's pause."""
        which, values = _waiting_for(target)
        return self.db.number(f"SELECT count(*) AS n {which} AND NOT ({NOT_HELD})", values)

    def position(self, run_id: int) -> int | None:
        """Return the number of queued runs for the same machine or cluster before this one, without held ones; None for
        a run that is on hold or not queued.
        """
        here = self.db.row(
            f"SELECT priority, place, target FROM runs WHERE id = ? AND status = 'queued' AND {NOT_HELD}", [run_id]
        )
        if here is None:
            return None
        return self.db.number(
            f"SELECT count(*) AS n {_WAITING} AND {_BEFORE} AND target = ?3 AND {NOT_HELD}", list(here)
        )

    def alive(self) -> list[Run]:
        """Return the runs that should have a live worker on the runner's machine, oldest first."""
        here = "runs.target = '' AND runs.report_key IS NULL"
        return [as_run(row) for row in self.db.rows(f"{RUN} WHERE {_LIVE} AND {here} ORDER BY runs.id")]

    def alive_on_clusters(self) -> list[Run]:
        """Return the runs that have begun on a cluster and not ended, oldest first."""
        return [as_run(row) for row in self.db.rows(f"{RUN} WHERE {_LIVE} AND runs.target <> '' ORDER BY runs.id")]

    def past_runs(self, experiment: str, script: str, host: str, limit: int = 300) -> list[PastRun]:
        """Return the newest finished runs of an experiment, or of a script (`Command.identity`), on this host that did
        not share their cores, newest first.
        """
        found = self.db.rows(_PAST, [experiment, host, limit, 100 * disturbed_above(self.db.home), script])
        return [
            PastRun(
                json.loads(row["config"]),
                row["cores"],
                row["gpus"],
                max(0.0, row["seconds"]),
                bool(row["disturbed"]),
                row["execution_time_s"],
            )
            for row in found
        ]


class QueueCommands:
    """Commands of the queue; each raises NoSuchRun, and WrongStatus for a run that is not queued."""

    def __init__(self, db: WriteConnection) -> None:
        self.db = db
        self._changes = RunChanges(db)

    @command("hold", "run")
    def hold(self, run_id: int, *, by: str) -> None:
        """Hold a queued run until it is released; a held run keeps its first holder."""
        self._rearrange(
            run_id, "held", by, "", "UPDATE runs SET held_by = ? WHERE id = ? AND held_by IS NULL", [by, run_id]
        )

    @command("release", "run")
    def release(self, run_id: int, *, by: str) -> None:
        """Release a held run; other runs are unchanged."""
        self._rearrange(
            run_id, "released", by, "", "UPDATE runs SET held_by = NULL WHERE id = ? AND held_by IS NOT NULL", [run_id]
        )

    @command(lambda given: "prefer" if given["end"] == "front" else "yield", "run")
    def move(self, run_id: int, end: End, *, by: str) -> None:
        """Move a run before or behind all others of its priority."""
        if end not in get_args(End):
            raise ConfigError.of("end", f"end must be front or back; got '{end}'.")
        alike = "FROM runs AS other WHERE other.status = 'queued' AND other.priority = runs.priority"
        place = f"(SELECT min(place) - 1 {alike})" if end == "front" else "(SELECT max(place) + 1 FROM runs)"
        self._rearrange(run_id, "moved", by, f"to the {end}", f"UPDATE runs SET place = {place} WHERE id = ?", [run_id])

    @command(lambda given: "prefer" if given["priority"] == PRIORITIES[-1] else "yield", "run")
    def set_priority(self, run_id: int, priority: Priority, *, by: str) -> None:
        """Change a run's priority; its place within the new one follows its age."""
        level = level_of(priority)
        self._rearrange(
            run_id,
            "priority",
            by,
            priority,
            "UPDATE runs SET priority = ? WHERE id = ? AND priority <> ?",
            [level, run_id, level],
        )

    def _rearrange(self, run_id: int, kind: str, by: str, detail: str, sql: str, values: list[Any]) -> None:
        with self.db.change() as connection:
            if (status := self._changes.status(run_id)) != "queued":
                raise WrongStatus(f"Run {run_id} is not queued: it is {status}.")
            if connection.execute(sql, values).rowcount:
                self._changes.note_event(run_id, kind, by, detail)
                self.db.touch(run_id)


def level_of(priority: str) -> int:
    """Return the numeric level of a priority; raises ConfigError for an unknown one."""
    if priority not in PRIORITIES:
        raise ConfigError([unknown_priority(priority)])
    return PRIORITIES.index(priority)


def _waiting_for(target: str | None) -> tuple[str, list[str]]:
    """Return the condition of the queued runs for a target, None for all, and its values."""
    return (_WAITING, []) if target is None else (f"{_WAITING} AND target = ?", [target])


def _as_queued(row: Row) -> QueuedRun:
    return QueuedRun(
        **{name: row[name] for name in (*_SAME, "held_by", "script_key")},
        config=json.loads(row["config"]),
        demand=as_demand(row),
        priority=PRIORITIES[row["priority"]],
        oversubscribe=bool(row["oversubscribe"]),
        exclusive=bool(row["exclusive"]),
    )
