"""Content of a bundle: its tables and columns, and their rows as plain values.

Data that is meaningful only in one store is omitted: a run's place in the queue, its processes, its change token, its
random id, and its baseline mark. The plan of the run's sweep is included.
"""

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.errors import ImportRefused
from engine.store.runs.origins import fingerprint_of_sweep
from engine.store.store import Reader

TABLES = (
    *("sweeps", "runs", "origins", "progress", "ranks", "metrics", "points", "phases", "spans", "histograms"),
    *("machine_metrics", "logs", "events", "tags", "notes", "trace_windows", "trace_chunks", "files", "file_uses"),
)
"""In the order of writing: a row follows the rows that it refers to."""
OPTIONAL = ("files", "file_uses")
"""Tables that a bundle only has if they have rows."""
_LEFT_OUT = {
    "runs": (
        *("pinned_by", "version", "place", "priority", "held_by", "gpu_ids", "max_retries", "end_when_hung"),
        *("target", "nodes", "uid", "resumed_uid", "command_id", "report_key"),
        *("worker_boot_id", "worker_pid", "worker_started_ticks", "worker_pid_namespace"),
        *("data_folder", "heartbeat_at", "last_point_id", "begun_uptime_s"),
    ),
    "ranks": ("pid",),
    "spans": ("id",),
    "events": ("id",),
    "machine_metrics": ("id",),
    "trace_chunks": ("id",),
}
SWEEP = (
    *("id", "experiment", "name", "owner", "grid", "created_at", "exclusive", "stop_after"),
    *("draw", "figure", "timing", "equal_work", "fingerprint"),
)
"""Columns of a sweep in a bundle; not whether it is paused, because exported runs have ended."""
COMMAND = "command"
"""A column of runs and sweeps that a bundle only has if one of them is of a command: its spec, as its number is another
one in each store.
"""
NO_LONGER = {"runs": ("pinned_by",)}
"""Columns of older bundles that are ignored."""
_WRITTEN = {
    "config": "coalesce((SELECT long_configs.config FROM long_configs WHERE run_id = id), config)",
    COMMAND: "(SELECT spec FROM commands WHERE commands.id = command_id)",
}
"""Columns that are written as an expression of a row."""
_OF_POINTS = "metric_id IN (SELECT id FROM metrics WHERE run_id IN (SELECT value FROM json_each(?)))"
_ORDER = {
    "files": "run_id, name",
    **dict.fromkeys(("spans", "events", "machine_metrics", "trace_chunks", "runs", "metrics"), "id"),
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
    has_commands = reader.db.exists(
        "SELECT 1 FROM runs WHERE command_id IS NOT NULL AND id IN (SELECT value FROM json_each(?))", [chosen]
    )
    more = (COMMAND,) if has_commands else ()
    yield TableRows("sweeps", (*SWEEP, *more), _sweeps(reader, chosen, more))
    for table in TABLES[1:]:
        if table in OPTIONAL and not reader.db.exists(
            f"SELECT 1 FROM {table} WHERE run_id IN (SELECT value FROM json_each(?)) LIMIT 1", [chosen]
        ):
            continue
        columns = (*columns_of(reader.db.connection, table), *(more if table == "runs" else ()))
        within = (
            _OF_POINTS
            if table == "points"
            else f"{'id' if table == 'runs' else 'run_id'} IN (SELECT value FROM json_each(?))"
        )
        wanted = ", ".join(_WRITTEN.get(name, name) if table == "runs" else name for name in columns)
        cursor = reader.db.connection.cursor()
        cursor.row_factory = None
        order = _ORDER.get(table, "run_id")
        yield TableRows(
            table, columns, cursor.execute(f"SELECT {wanted} FROM {table} WHERE {within} ORDER BY {order}", [chosen])
        )


def _sweeps(reader: Reader, run_ids: str, more: Sequence[str]) -> Iterator[Sequence[Any]]:
    """Yield the sweeps of some runs (ids as JSON), each with its fingerprint."""
    sql = (
        f"SELECT *, {_WRITTEN[COMMAND]} AS command FROM sweeps "
        "WHERE id IN (SELECT sweep_id FROM runs WHERE id IN (SELECT value FROM json_each(?))) ORDER BY id"
    )
    for row in reader.db.rows(sql, [run_ids]):
        yield [fingerprint_of_sweep(row) if name == "fingerprint" else row[name] for name in (*SWEEP, *more)]


# ------------------------------------------------------------------------------------------------------------------
# Import of sweeps: create a new sweep, or add the runs to the existing one and extend its grid by their values.

_MADE = [*(name for name in SWEEP if name != "id"), "command_id"]
_LATER: dict[str, Any] = {"timing": "", "equal_work": "", "command_id": None}
"""Values of columns that older bundles lack."""
_INSERT = f"INSERT INTO sweeps ({', '.join(_MADE)}) VALUES ({', '.join('?' * len(_MADE))})"


class ArrivingSweeps:
    """The sweeps of a bundle within the transaction that imports it; sweeps without new runs are skipped.

    `may_join` returns whether runs may be added to a sweep of an owner.
    """

    def __init__(self, connection: sqlite3.Connection, may_join: Callable[[str], bool]) -> None:
        self._connection = connection
        self._may_join = may_join
        self._rows: dict[int, dict[str, Any]] = {}
        self._here: dict[int, int] = {}

    def hold(self, part: TableRows) -> None:
        """Store the rows of the bundle."""
        for row in part.rows:
            told = _LATER | dict(zip(part.columns, row, strict=True))
            self._rows[told["id"]] = told

    def here(self, old: int | None) -> int | None:
        """Return the local id of the sweep with id `old` in the bundle, None for None; raises KeyError,
        ImportRefused.
        """
        if old is None:
            return None
        if old not in self._here:
            self._here[old] = self._join(self._rows[old])
        return self._here[old]

    @property
    def ids(self) -> tuple[int, ...]:
        """Local ids of the sweeps that got runs."""
        return tuple(sorted(set(self._here.values())))

    def _join(self, told: Mapping[str, Any]) -> int:
        found = self._known(told)
        if found is None:
            made = self._connection.execute(_INSERT, [told[name] for name in _MADE]).lastrowid
            assert made is not None
            return made
        if not self._may_join(found["owner"]):
            raise ImportRefused(
                f"Sweep {told['id']} of the file is sweep {found['id']} here, owned by {found['owner']}. Ask "
                f"{found['owner']} or an admin to import it."
            )
        grid, draw = _joined(found, told)
        self._connection.execute("UPDATE sweeps SET grid = ?, draw = ? WHERE id = ?", [grid, draw, found["id"]])
        return int(found["id"])

    def _known(self, told: Mapping[str, Any]) -> sqlite3.Row | None:
        """Return the identical local sweep: imported before, or launched here and re-imported."""
        sql = (
            "SELECT * FROM sweeps WHERE fingerprint = ?1 OR (fingerprint = '' AND created_at = ?2 AND experiment = ?3)"
        )
        rows: Iterable[sqlite3.Row] = self._connection.execute(
            sql, [told["fingerprint"], told["created_at"], told["experiment"]]
        )
        return next((row for row in rows if fingerprint_of_sweep(row) == told["fingerprint"]), None)


def _joined(here: sqlite3.Row, told: Mapping[str, Any]) -> tuple[str, str]:
    """Return the merged grid and draw as JSON; raises ImportRefused if they can't be one sweep."""
    ours, theirs = json.loads(here["grid"]), json.loads(told["grid"])
    draws = [json.loads(text) for text in (here["draw"], told["draw"]) if text]
    if (
        list(ours) != list(theirs)
        or here["experiment"] != told["experiment"]
        or len(draws) == 1
        or (draws and _plan(draws[0]) != _plan(draws[1]))
    ):
        raise ImportRefused(
            f"Sweep {told['id']} of the file has the fingerprint of sweep {here['id']} here but a different plan, "
            "so it was edited. Export it again."
        )
    grid = {field: list(dict.fromkeys([*values, *theirs[field]])) for field, values in ours.items()}
    drawn = json.dumps(draws[0] | {"count": max(draw["count"] for draw in draws)}) if draws else ""
    return json.dumps(grid), drawn


def _plan(draw: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in draw.items() if name != "count"}
