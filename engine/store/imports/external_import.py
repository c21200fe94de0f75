"""Import of runs recorded by another program, as finished runs with curves of the whole run."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import islice
from typing import IO, Any

from engine.access.confusables import without_hidden
from engine.access.quotas import size
from engine.errors import EngineError, LimitReached, StoreFull, counted
from engine.recorder import Point
from engine.store.access.authorization import storable
from engine.store.access.quotas import QuotaChecks
from engine.store.curves.ingest import POINT_BYTES, Arrival, arriving_runs
from engine.store.imports.bundle_import import arriving
from engine.store.records import Status
from engine.store.runs.files import KeptFile, arriving_content, checked_file_name, require_room
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

LEAST_SPAN_S = 0.05
"""A shorter time is that of writing the values, such as by a program that converts them, not that of a run."""

MOST_FILE_BYTES = 2 << 30
"""Bytes of all files of an import: models can have hundreds of GB, and an import has minutes."""
MOST_SAID = 3
"""Files that a note names."""


@dataclass(frozen=True)
class ExternalFile:
    """A file of such a run, where its program left it."""

    size_bytes: int
    open: Callable[[], AbstractContextManager[IO[bytes]]]


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
    """Duration from its first to its last time; below `LEAST_SPAN_S` it has none."""
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
    files: Mapping[str, ExternalFile] = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        """Approximate size of the run in the store."""
        return POINT_BYTES * self.point_count + len(json.dumps(self.config))


def take_in(store: Store, runs: Sequence[ExternalRun], *, file: str, by: str) -> tuple[list[int], list[str]]:
    """Write the runs, which belong to who imports them, all or none; return their ids, and notes on files that were
    left out. Raises ImportRefused if one of the runs exists already.
    """
    with arriving_runs(store.db, len(runs)) as here:
        origins = {
            run_id: Origin(run.kind, run.host, run.original_id, run.owner, run.fingerprint, file, now(), by)
            for run_id, run in zip(here.ids, runs, strict=True)
        }
        _write_hidden(here, runs)
        files, notes = _kept(store, here, runs, by)
        with arriving(here, origins) as connection:
            for run_id, run in zip(here.ids, runs, strict=True):
                config = json.dumps(run.config)
                is_timed = run.seconds >= LEAST_SPAN_S
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
                        "ended_at": run.ended_at if is_timed else run.created_at,
                        "execution_time_s": run.seconds if is_timed else None,
                    },
                    **APPENDED,
                )
                keep_whole(connection, run_id, config)
            store.files.add(files)
    return list(here.ids), notes


def _kept(store: Store, here: Arrival, runs: Sequence[ExternalRun], by: str) -> tuple[list[KeptFile], list[str]]:
    """Write the content of files into the home, where the running import keeps it from being removed; return their
    rows, and notes on what exceeds a limit or can't be read. Small files come first.
    """
    kept, notes, quotas = list[KeptFile](), list[str](), QuotaChecks(store.db)
    points_bytes = sum(run.size_bytes for run in runs)
    for run_id, run in zip(here.ids, runs, strict=True):
        refused = list[str]()
        for name, file in sorted(run.files.items(), key=lambda each: each[1].size_bytes):
            others, all_bytes = [each.bytes for each in kept if each.run_id == run_id], sum(each.bytes for each in kept)
            try:
                checked_file_name(name)
                require_room("it", others, file.size_bytes)
                if all_bytes + file.size_bytes > MOST_FILE_BYTES:
                    raise LimitReached(f"an import can bring files of at most {size(MOST_FILE_BYTES)}")
                quotas.require_files(by or run.owner, points_bytes + all_bytes + file.size_bytes)
                with file.open() as source, arriving_content(store.db.home, source) as content:
                    content.publish()
            except StoreFull:
                raise
            except EngineError as error:
                refused.append(f"{storable(name[:60])!r} ({str(error).rstrip('.')})")
            else:
                kept.append(KeptFile(run_id, name, content.sha256, content.bytes, now(), str(by or run.owner)))
        if refused:
            more = f" and {len(refused) - MOST_SAID:,} more" if len(refused) > MOST_SAID else ""
            said = f"{counted(len(refused), 'file')} left out: {'; '.join(refused[:MOST_SAID])}{more}."
            notes.append(f"Run {run_id}, {storable(run.original_id)}: {said}")
    return kept, notes


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
