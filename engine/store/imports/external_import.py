"""Import of runs recorded by another program, as finished runs with curves of the whole run."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from engine.access.confusables import without_hidden
from engine.recorder import Point
from engine.store.access.authorization import storable
from engine.store.curves.ingest import POINT_BYTES, Arrival, arriving_runs
from engine.store.imports.bundle_import import arriving
from engine.store.records import Status
from engine.store.runs.origins import Kind, Origin
from engine.store.runs.rows import APPENDED, SLOTS
from engine.store.schema.config_text import keep_whole, listed
from engine.store.store import Store
from engine.store.timestamps import now
from engine.store.worker_writes import add_points

IMPORTED_EXPERIMENT = "imported"
"""Experiment of runs whose program recorded none; it is not in the registry."""

BATCH = 5_000
"""Number of points held in memory while a run is written."""


@dataclass(frozen=True)
class ExternalRun:
    """A run recorded by another program; times are in the store's format."""

    kind: Kind
    original_id: str
    fingerprint: str
    points: Iterable[Point]
    """Can be iterated once."""
    created_at: str
    ended_at: str
    seconds: float
    """Duration from its first to its last time."""
    experiment: str = IMPORTED_EXPERIMENT
    name: str = ""
    owner: str = "unknown"
    host: str = ""
    status: Status = "finished"
    cause: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    note: str = ""
    point_count: int = 0

    @property
    def size_bytes(self) -> int:
        """Approximate size of the run in the store."""
        return POINT_BYTES * self.point_count + len(json.dumps(self.config))


def take_in(store: Store, runs: Sequence[ExternalRun], *, file: str, by: str) -> list[int]:
    """Write the runs, which belong to who imports them, and return their ids, all or none; raises ImportRefused if one
    of them exists already.
    """
    with arriving_runs(store.db, len(runs)) as here:
        origins = {
            run_id: Origin(run.kind, run.host, run.original_id, run.owner, run.fingerprint, file, now(), by)
            for run_id, run in zip(here.ids, runs, strict=True)
        }
        _write_hidden(here, runs)
        with arriving(here, origins) as connection:
            for run_id, run in zip(here.ids, runs, strict=True):
                config = json.dumps(run.config)
                texts = {
                    "experiment": in_one_line(run.experiment),
                    "name": in_one_line(run.name),
                    "owner": by or run.owner,
                    "status": run.status,
                    "cause": run.cause,
                    "config": listed(config),
                    "environment": json.dumps(run.environment),
                }
                here.db.insert(
                    "runs",
                    {
                        **{name: storable(text) for name, text in texts.items()},
                        "id": run_id,
                        **dict.fromkeys(SLOTS, 0),
                        "created_at": run.created_at,
                        "started_at": run.created_at,
                        "ended_at": run.ended_at,
                        "execution_time_s": run.seconds,
                    },
                    **APPENDED,
                )
                keep_whole(connection, run_id, config)
    return list(here.ids)


def in_one_line(name: str) -> str:
    """Return a name as pages show it, so that a filter finds it by what is shown."""
    return " ".join(without_hidden(name).split())


def _write_hidden(here: Arrival, runs: Sequence[ExternalRun]) -> None:
    connection = here.db.connection
    with here.portions() as rest:
        for run_id, run in zip(here.ids, runs, strict=True):
            written, points = 0, iter(run.points)
            while batch := list(islice(points, BATCH)):
                add_points(connection, run_id, [(None, batch)], written + 1)
                written += len(batch)
                rest()
            connection.executemany(
                "INSERT OR IGNORE INTO tags (run_id, tag) VALUES (?, ?)",
                [(run_id, storable(without_hidden(tag))) for tag in run.tags],
            )
            if run.note:
                connection.execute(
                    "INSERT INTO notes (run_id, text, author, at) VALUES (?, ?, ?, ?)",
                    [run_id, storable(run.note), storable(run.owner), now()],
                )
