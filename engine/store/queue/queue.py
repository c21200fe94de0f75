"""The queue as the store keeps it: its order, who is on hold, what a run asks for; and the commands that change these.

The order is high before normal before low, within one of them by `place`: a new run's is above all others, and a move
gives another one.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from engine.errors import ConfigError, Problem, WrongStatus
from engine.launch_options import PRIORITIES, Priority, unknown_priority
from engine.store.access.authorization import command
from engine.store.connection import Connection, Row, WriteConnection
from engine.store.records import ALIVE, Demand, Run
from engine.store.runs.changes import RunChanges
from engine.store.runs.rows import NOT_HELD, NOT_PAUSED, RUN, as_run

End = Literal["front", "back"]
_ALIVE = ", ".join(f"'{status}'" for status in ALIVE)
_WAITING = "FROM runs INDEXED BY runs_queue WHERE status = 'queued'"
"""By its own choice SQLite would read and sort all that wait to find the first."""
_ORDER = "ORDER BY priority DESC, place"
_READY = f"{_WAITING} AND {NOT_HELD} AND owner NOT IN (SELECT value FROM json_each(?))"
_WITHIN = (
    " AND NOT EXISTS (SELECT 1 FROM json_each(?) AS room WHERE json_extract(room.value, '$[0]') = runs.owner"
    " AND (runs.cores > max(json_extract(room.value, '$[1]'), 0) OR runs.gpus > max(json_extract(room.value, "
    "'$[2]'), 0)))"
)
"""A condition on runs: what they ask for is left for their owner; where nothing bounds it, the room is NULL and so is
the comparison.
"""
_HELD_BY = f"coalesce(held_by, iif({NOT_PAUSED}, NULL, 'the pause of sweep ' || sweep_id)) AS held_by"
_QUEUED = (
    f"id, experiment, preset, name, owner, config, cores, gpus, ranks, threads_per_rank, priority, {_HELD_BY}, "
    "oversubscribe, created_at, parent_id, sweep_id,"
    " coalesce((SELECT exclusive FROM sweeps WHERE sweeps.id = runs.sweep_id), 0) AS exclusive"
)
_PAST = (
    "SELECT config, cores, gpus, (julianday(ended_at) - julianday(claimed_at)) * 86400 AS seconds FROM runs"
    " WHERE experiment = ?1 AND status = 'finished' AND (parent_id IS NULL OR NOT resumes) AND NOT "
    "oversubscribe AND claimed_at IS NOT NULL"
    " AND json_extract(environment, '$.host') IS ?2 ORDER BY id DESC LIMIT ?3"
)


@dataclass(frozen=True)
class Bounded:
    """Who may start no run at this moment, or none that asks for much."""

    full: Sequence[str] = ()
    """Owners whose runs are passed over."""
    room: Mapping[str, tuple[int | None, int | None]] = field(default_factory=dict)
    """By owner the cores and GPUs that their runs may still take, None for any number."""

    def asked(self) -> tuple[str, list[str]]:
        """Return a condition on runs, and its values."""
        full = json.dumps(list(self.full))
        return (
            (_READY + _WITHIN, [full, json.dumps([[owner, *room] for owner, room in self.room.items()])])
            if self.room
            else (_READY, [full])
        )


ANY = Bounded()


@dataclass(frozen=True)
class QueuedRun:
    """One run that waits, as far as the queue is about it."""

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
    """Whether it is to have the machine to itself."""


@dataclass(frozen=True)
class PastRun:
    """What a finished run took: its slots, and the seconds that it held them."""

    config: Mapping[str, Any]
    cores: int
    gpus: int
    seconds: float


class QueueReader:
    """The questions about the queue, of runner and pages alike."""

    def __init__(self, db: Connection) -> None:
        self.db = db

    def next(self, bounded: Bounded = ANY) -> Run | None:
        """Return the first run of the queue that neither a hold nor its owner's bounds keep back."""
        which, values = bounded.asked()
        row = self.db.row(f"{RUN} WHERE runs.id = (SELECT id {which} {_ORDER} LIMIT 1)", values)
        return as_run(row) if row else None

    def waiting(self, *, limit: int = 10_000, ready: Bounded | None = None) -> list[QueuedRun]:
        """Return the runs that wait in their order; with `ready` only those that neither a hold nor these bounds keep
        back.
        """
        which, values = (_WAITING, list[str]()) if ready is None else ready.asked()
        return [_as_queued(row) for row in self.db.rows(f"SELECT {_QUEUED} {which} {_ORDER} LIMIT ?", [*values, limit])]

    def owners(self) -> list[str]:
        """Return everyone who has a run in the queue."""
        return [str(row["owner"]) for row in self.db.rows("SELECT DISTINCT owner FROM runs WHERE status = 'queued'")]

    def count(self) -> int:
        """Return how many runs wait, those on hold among them."""
        row = self.db.row("SELECT count(*) AS n FROM runs WHERE status = 'queued'")
        return int(row["n"]) if row else 0

    def count_held(self) -> int:
        """Return how many of the runs that wait are on hold, by a person or by the pause of their sweep."""
        row = self.db.row(f"SELECT count(*) AS n {_WAITING} AND NOT ({NOT_HELD})")
        return int(row["n"]) if row else 0

    def position(self, run_id: int) -> int | None:
        """Return how many runs wait before this one, those on hold left out; None for a run that is on hold itself, or
        does not wait.
        """
        here = self.db.row(
            f"SELECT priority, place FROM runs WHERE id = ? AND status = 'queued' AND {NOT_HELD}", [run_id]
        )
        if here is None:
            return None
        row = self.db.row(
            f"SELECT count(*) AS n {_WAITING} AND (priority > ?1 OR (priority = ?1 AND place < ?2)) AND {NOT_HELD}",
            list(here),
        )
        return int(row["n"]) if row else 0

    def alive(self) -> list[Run]:
        """Return the runs that should have a live worker, oldest first."""
        return [as_run(row) for row in self.db.rows(f"{RUN} WHERE runs.status IN ({_ALIVE}) ORDER BY runs.id")]

    def past_runs(self, experiment: str, host: str, limit: int = 300) -> list[PastRun]:
        """Return the newest runs of an experiment that finished on this host with their cores to themselves, newest
        first.
        """
        found = self.db.rows(_PAST, [experiment, host, limit])
        return [
            PastRun(json.loads(row["config"]), row["cores"], row["gpus"], max(0.0, row["seconds"])) for row in found
        ]


class QueueCommands:
    """What people do to the queue; each raises NoSuchRun, and WrongStatus for a run that does not wait."""

    def __init__(self, db: WriteConnection) -> None:
        self.db = db
        self._changes = RunChanges(db)

    @command("hold", "run")
    def hold(self, run_id: int, *, by: str) -> None:
        """Keep a run in the queue until it is released; one that is on hold already stays its first holder's."""
        self._rearrange(
            run_id, "held", by, "", "UPDATE runs SET held_by = ? WHERE id = ? AND held_by IS NULL", [by, run_id]
        )

    @command("release", "run")
    def release(self, run_id: int, *, by: str) -> None:
        """Let a run on hold start again when its turn comes; one that is not on hold stays as it is."""
        self._rearrange(
            run_id, "released", by, "", "UPDATE runs SET held_by = NULL WHERE id = ? AND held_by IS NOT NULL", [run_id]
        )

    @command(lambda given: "prefer" if given["end"] == "front" else "yield", "run")
    def move(self, run_id: int, end: End, *, by: str) -> None:
        """Put a run before or behind all others of its priority."""
        if end not in get_args(End):
            raise ConfigError([Problem("end", f"A run is moved to front or back, got '{end}'.")])
        place = (
            (
                "(SELECT min(place) - 1 FROM runs AS other WHERE other.status = 'queued' AND other.priority = "
                "runs.priority)"
            )
            if end == "front"
            else "(SELECT max(place) + 1 FROM runs)"
        )
        self._rearrange(run_id, "moved", by, f"to the {end}", f"UPDATE runs SET place = {place} WHERE id = ?", [run_id])

    @command(lambda given: "prefer" if given["priority"] == PRIORITIES[-1] else "yield", "run")
    def set_priority(self, run_id: int, priority: Priority, *, by: str) -> None:
        """Give a run another priority; its place within the new one is by its age."""
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
                raise WrongStatus(f"Run {run_id} does not wait in the queue: it is {status}.")
            if connection.execute(sql, values).rowcount:
                self._changes.note_event(run_id, kind, by, detail)
                self.db.touch(run_id)


def level_of(priority: str) -> int:
    """Return a priority as the store orders by it; raises ConfigError for a word that is none."""
    if priority not in PRIORITIES:
        raise ConfigError([unknown_priority(priority)])
    return PRIORITIES.index(priority)


def _as_queued(row: Row) -> QueuedRun:
    same = "id experiment preset name owner held_by created_at parent_id sweep_id"
    return QueuedRun(
        **{name: row[name] for name in same.split()},
        config=json.loads(row["config"]),
        demand=Demand(row["cores"], row["gpus"], row["ranks"], row["threads_per_rank"]),
        priority=PRIORITIES[row["priority"]],
        oversubscribe=bool(row["oversubscribe"]),
        exclusive=bool(row["exclusive"]),
    )
