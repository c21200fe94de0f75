"""What of a run goes into a bundle: which tables and columns, and their rows as plain values.

A run leaves without what only means something in its own store: its sweep, its place in the queue, its processes, its change token.
"""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from engine.store.connection import Connected

TABLES = (
    *("runs", "origins", "progress", "ranks", "metrics", "points", "phases", "spans", "histograms"),
    *("machine_metrics", "logs", "events", "tags", "notes"),
)
"""In the order in which they are written and read: a row comes after what it refers to."""
_LEFT_OUT = {
    "runs": (
        *("sweep_id", "version", "place", "priority", "held_by", "gpu_ids", "max_retries"),
        *("worker_boot_id", "worker_pid", "worker_started_ticks", "heartbeat_at", "last_point_id", "begun_uptime_s"),
    ),
    "ranks": ("pid",),
    "spans": ("id",),
    "events": ("id",),
    "machine_metrics": ("id",),
}
_OF_POINTS = "metric_id IN (SELECT id FROM metrics WHERE run_id IN (SELECT value FROM json_each(?)))"
_ORDER = {"spans": "id", "events": "id", "machine_metrics": "id", "runs": "id", "metrics": "id", "points": "metric_id, id"}


@dataclass(frozen=True)
class Part:
    """The rows of one table; `rows` can be gone through once."""

    table: str
    columns: tuple[str, ...]
    rows: Iterator[Sequence[Any]]


def columns_of(connection: sqlite3.Connection, table: str) -> tuple[str, ...]:
    """Return the columns of a table that travel."""
    left_out = _LEFT_OUT.get(table, ())
    return tuple(row[1] for row in connection.execute(f"PRAGMA table_info({table})") if row[1] not in left_out)


def parts_of(reader: Connected, run_ids: Sequence[int]) -> Iterator[Part]:
    """Yield the tables with the rows of some runs, within the reader's snapshot."""
    chosen = json.dumps(list(run_ids))
    for table in TABLES:
        columns = columns_of(reader.connection, table)
        within = _OF_POINTS if table == "points" else f"{'id' if table == 'runs' else 'run_id'} IN (SELECT value FROM json_each(?))"
        cursor = reader.connection.cursor()
        cursor.row_factory = None
        order = _ORDER.get(table, "run_id")
        yield Part(table, columns, cursor.execute(f"SELECT {', '.join(columns)} FROM {table} WHERE {within} ORDER BY {order}", [chosen]))
