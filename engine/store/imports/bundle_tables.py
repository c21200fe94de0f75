"""Content of a bundle: its tables and columns, and their rows as plain values.

Data that is meaningful only in one store is omitted: a run's place in the queue, its processes, its change token, its
random id, and its baseline mark. The plan of the run's sweep is included.
"""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from engine.store.reader import Reader
from engine.store.runs.origins import fingerprint_of_sweep

TABLES = (
    *("sweeps", "runs", "origins", "progress", "ranks", "metrics", "points", "phases", "spans", "histograms"),
    *("machine_metrics", "logs", "events", "tags", "notes", "trace_windows", "trace_chunks"),
)
"""In the order of writing: a row follows the rows that it refers to."""
_LEFT_OUT = {
    "runs": (
        *("pinned_by", "version", "place", "priority", "held_by", "gpu_ids", "max_retries", "end_when_hung"),
        *("target", "nodes", "uid", "resumed_uid"),
        *(
            "worker_boot_id",
            "worker_pid",
            "worker_started_ticks",
            "worker_pid_namespace",
            "data_folder",
            "heartbeat_at",
            "last_point_id",
            "begun_uptime_s",
        ),
    ),
    "ranks": ("pid",),
    "spans": ("id",),
    "events": ("id",),
    "machine_metrics": ("id",),
    "trace_chunks": ("id",),
}
SWEEP = (
    "id",
    "experiment",
    "name",
    "owner",
    "grid",
    "created_at",
    "exclusive",
    "stop_after",
    "draw",
    "figure",
    "timing",
    "equal_work",
    "fingerprint",
)
"""Columns of a sweep in a bundle; not whether it is paused, because exported runs have ended."""
NO_LONGER = {"runs": ("pinned_by",)}
"""Columns of older bundles that are ignored."""
_OF_POINTS = "metric_id IN (SELECT id FROM metrics WHERE run_id IN (SELECT value FROM json_each(?)))"
_ORDER = {
    "spans": "id",
    "events": "id",
    "machine_metrics": "id",
    "trace_chunks": "id",
    "runs": "id",
    "metrics": "id",
    "points": "metric_id, id",
}


@dataclass(frozen=True)
class TableRows:
    """The rows of one table; `rows` can be iterated once."""

    table: str
    columns: tuple[str, ...]
    rows: Iterator[Sequence[Any]]


def columns_of(connection: sqlite3.Connection, table: str) -> tuple[str, ...]:
    """Return the columns of a table that a bundle includes."""
    if table == "sweeps":
        return SWEEP
    left_out = _LEFT_OUT.get(table, ())
    return tuple(row[1] for row in connection.execute(f"PRAGMA table_info({table})") if row[1] not in left_out)


def parts_of(reader: Reader, run_ids: Sequence[int]) -> Iterator[TableRows]:
    """Yield the tables with the rows of some runs, within the reader's snapshot."""
    chosen = json.dumps(list(run_ids))
    yield TableRows("sweeps", SWEEP, _sweeps(reader, chosen))
    for table in TABLES[1:]:
        columns = columns_of(reader.db.connection, table)
        within = (
            _OF_POINTS
            if table == "points"
            else f"{'id' if table == 'runs' else 'run_id'} IN (SELECT value FROM json_each(?))"
        )
        wanted = ", ".join(
            "coalesce((SELECT long_configs.config FROM long_configs WHERE run_id = id), config)"
            if name == "config"
            else name
            for name in columns
        )
        cursor = reader.db.connection.cursor()
        cursor.row_factory = None
        order = _ORDER.get(table, "run_id")
        yield TableRows(
            table, columns, cursor.execute(f"SELECT {wanted} FROM {table} WHERE {within} ORDER BY {order}", [chosen])
        )


def _sweeps(reader: Reader, run_ids: str) -> Iterator[Sequence[Any]]:
    """Yield the sweeps of some runs (ids as JSON), each with its fingerprint."""
    sql = (
        "SELECT * FROM sweeps WHERE id IN (SELECT sweep_id FROM runs WHERE id IN (SELECT value FROM json_each(?))) "
        "ORDER BY id"
    )
    for row in reader.db.rows(sql, [run_ids]):
        yield [fingerprint_of_sweep(row) if name == "fingerprint" else row[name] for name in SWEEP]
