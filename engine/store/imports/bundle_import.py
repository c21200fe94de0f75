"""Import of runs from another store: their rows get new ids, are validated while hidden, and become visible at once.

The tables reject wrong types; times, summaries and ranges are checked here.
"""

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, fields, replace
from itertools import islice
from typing import Any

from engine.errors import ConfigError, ImportRefused, StoreDamaged
from engine.registry import is_registered
from engine.store.access.authorization import Authorization
from engine.store.connection import WriteConnection
from engine.store.curves.ingest import Arrival
from engine.store.imports.bundle_tables import COMMAND, NO_LONGER, ArrivingSweeps, TableRows, columns_of
from engine.store.runs.commands import RunChanges
from engine.store.runs.origins import Origin
from engine.store.runs.rows import APPENDED
from engine.store.schema.config_text import keep_whole, listed
from engine.store.schema.minmax_buckets import rebuild
from engine.store.scripts import keep_command
from engine.store.store import Store
from engine.store.timestamps import now
from engine.trace.layout import LATEST_NS

IMPORTED = "imported"
"""Kind of the event that states a run's origin."""
MOST_CURVES = 20_000
"""Maximum number of metrics of one run, counted per rank."""

_COLUMNS = ["run_id", *(each.name for each in fields(Origin))]
_ORIGIN = (
    f"INSERT INTO origins ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"
    " ON CONFLICT (fingerprint) DO NOTHING"
)
_COUNTED = (
    "UPDATE runs SET last_point_id = (SELECT coalesce(max((SELECT max(id) FROM points WHERE metric_id = metrics.id)), "
    "0) FROM metrics WHERE run_id = ?1) WHERE id = ?1"
)
BATCH = 500
"""Rows written before a look at the portion's time."""


@contextmanager
def arriving(here: Arrival, origins: Mapping[int, Origin]) -> Iterator[sqlite3.Connection]:
    """Hold the last transaction of an import, in which the runs of a file are written; finish it with their origins,
    and its row in the audit log.
    """
    changes = RunChanges(here.db)
    with here.last() as connection:
        with refusing("a row"):
            yield connection
        for run_id, origin in origins.items():
            connection.execute(_COUNTED, [run_id])
            name_origin(connection, run_id, origin)
            changes.note_event(run_id, IMPORTED, origin.imported_by, origin.words)
            here.db.touch(run_id)
        for by, file in {(origin.imported_by, origin.file) for origin in origins.values()}:
            authorization = Authorization(here.db)
            authorization.audit("import", by, authorization.role_of(by), "run", list(origins), file)


def name_origin(connection: sqlite3.Connection, run_id: int, origin: Origin) -> None:
    """Write a run's origin; raises ImportRefused if it was imported concurrently."""
    if connection.execute(_ORIGIN, [run_id, *astuple(origin)]).rowcount == 0:
        raise ImportRefused(
            f"{origin.file} was imported by another process at the same time, and its runs are already here. "
            "Nothing was written twice."
        )


def admit(
    store: Store,
    here: Arrival,
    parts: Iterable[TableRows],
    ids: Mapping[int, int | None],
    origins: Mapping[int, Origin],
) -> tuple[int, ...]:
    """Write the rows of some runs under the ids in `ids`, and return their sweeps; runs with id None are skipped. The
    sweeps and the runs are the last parts.

    Raises ImportRefused, in which case the rows stay hidden.
    """
    owner = owner_here(store, origins)
    standing = store.read.access.standing(owner or "")
    connection, parts, metrics = store.db.connection, iter(parts), dict[int, int | None]()
    with here.portions() as rest:
        sweep_rows = _write_hidden(connection, parts, ids, metrics, rest)
    for run_id in origins:
        check_run(connection, run_id)
    with here.portions() as rest:
        for metric_id in filter(None, metrics.values()):
            if connection.execute("SELECT thinned FROM metrics WHERE id = ?", [metric_id]).fetchone()[0] == 0:
                rebuild(connection, metric_id, rest)
    with arriving(here, origins):
        sweeps = ArrivingSweeps(connection, lambda whose: standing.may("extend sweep", [whose]))
        keys = {"id": ids.__getitem__, "parent_id": lambda old: ids.get(old), "sweep_id": sweeps.here}
        for part in filter(None, [sweep_rows, *parts]):
            with refusing(f"table '{part.table}'"):
                part = _with_commands(here.db, _known(connection, _owned(part, owner)))
                if part.table == "sweeps":
                    sweeps.hold(part)
                else:
                    rows = _shortened(connection, part, ids)
                    _insert(connection, replace(part, rows=rows), keys, APPENDED)
    return sweeps.ids


def _write_hidden(
    connection: sqlite3.Connection,
    parts: Iterator[TableRows],
    ids: Mapping[int, int | None],
    metrics: dict[int, int | None],
    rest: Callable[[], None],
) -> TableRows | None:
    """Write the parts before the sweeps and the runs; return the first part that is one of these."""
    for part in parts:
        if part.table in ("sweeps", "runs"):
            return part
        with refusing(f"table '{part.table}'"):
            part = _known(connection, part)
            if part.table == "metrics":
                _add_metrics(connection, part, ids, metrics, rest)
            elif part.table == "points":
                _insert(connection, part, {"metric_id": metrics.__getitem__}, {}, rest)
            elif part.table != "origins":
                _insert(connection, part, {"run_id": ids.__getitem__}, {}, rest)
    return None


def _known(connection: sqlite3.Connection, part: TableRows) -> TableRows:
    """Return a part without the columns that are ignored; raises ImportRefused for an unknown column."""
    part = _without(part, NO_LONGER.get(part.table, ()))
    more = {COMMAND} if part.table in ("runs", "sweeps") else set()
    if unknown := set(part.columns) - set(columns_of(connection, part.table)) - more:
        raise ImportRefused(
            f"The file was made by a newer version of Parallab: its table '{part.table}' has a column "
            f"'{min(unknown)}'. Update Parallab."
        )
    return part


def _with_commands(db: WriteConnection, part: TableRows) -> TableRows:
    """Return rows of runs or sweeps with the numbers here of their commands; raises ImportRefused for an invalid one,
    and for one in the name of an experiment.
    """
    if COMMAND not in part.columns:
        return part
    from engine.script.settings import foreign_command  # pydantic, which an import of other runs doesn't need

    at, at_name = part.columns.index(COMMAND), part.columns.index("experiment")
    numbers: dict[tuple[str, str], int | None] = {}

    def number_of(row: Sequence[Any]) -> int | None:
        if (spec := row[at]) is None:
            return None
        if is_registered(row[at_name]):
            raise ImportRefused(f"The file was edited: it gives the experiment {row[at_name]} a command.")
        key = spec, row[at_name]
        if key not in numbers:
            try:
                numbers[key] = keep_command(db, foreign_command(spec), row[at_name])
            except ConfigError as error:
                raise ImportRefused(f"{error} Export it again.") from error
        return numbers[key]

    columns = (*part.columns[:at], "command_id", *part.columns[at + 1 :])
    rows = ([*row[:at], number_of(row), *row[at + 1 :]] for row in part.rows)
    return TableRows(part.table, columns, rows)


def owner_here(store: Store, origins: Mapping[int, Origin]) -> str | None:
    """Return the owner of imported runs: the importing person. None in a lab without accounts, where names prove
    nothing.
    """
    bringer = next((origin.imported_by for origin in origins.values()), None)
    return bringer if store.read.access.has_people() else None


def _owned(part: TableRows, owner: str | None) -> TableRows:
    """Return rows of runs and sweeps with a new owner; their origin still has the original one."""
    if owner is None or part.table not in ("runs", "sweeps") or "owner" not in part.columns:
        return part
    at = part.columns.index("owner")
    return TableRows(part.table, part.columns, ([*row[:at], owner, *row[at + 1 :]] for row in part.rows))


def _without(part: TableRows, names: Sequence[str]) -> TableRows:
    """Return the rows without some columns."""
    if not set(names) & set(part.columns):
        return part
    kept = [place for place, name in enumerate(part.columns) if name not in names]
    return TableRows(
        part.table, tuple(part.columns[place] for place in kept), ([row[place] for place in kept] for row in part.rows)
    )


def _shortened(connection: sqlite3.Connection, part: TableRows, ids: Mapping[int, int | None]) -> Iterator[list[Any]]:
    """Yield the rows of runs with as much of their configs as a row holds; longer configs are stored separately."""
    at_id, at_config = part.columns.index("id"), part.columns.index("config")
    for row in part.rows:
        values = list(row)
        if (run_id := ids[values[at_id]]) is not None:
            keep_whole(connection, run_id, values[at_config])
            values[at_config] = listed(values[at_config])
        yield values


def _add_metrics(
    connection: sqlite3.Connection,
    part: TableRows,
    ids: Mapping[int, int | None],
    metrics: dict[int, int | None],
    rest: Callable[[], None],
) -> None:
    """Insert the rows of the metrics, and add their new ids to `metrics`; None for metrics of skipped runs."""
    columns = tuple(name for name in part.columns if name != "id")
    at = {name: position for position, name in enumerate(part.columns)}
    sql = f"INSERT INTO metrics ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
    of_runs: Counter[int] = Counter()
    for row in part.rows:
        old, run_id = row[at["id"]], ids[row[at["run_id"]]]
        if old in metrics:
            raise KeyError(f"metric {old} twice")
        of_runs[row[at["run_id"]]] += 1
        if of_runs[row[at["run_id"]]] > MOST_CURVES:
            raise ImportRefused(
                f"Run {row[at['run_id']]} in the file exceeds the limit of {MOST_CURVES:,} metrics, counted per rank."
            )
        metrics[old] = None
        if run_id is not None:
            values = [run_id if name == "run_id" else row[at[name]] for name in columns]
            metrics[old] = connection.execute(sql, values).lastrowid
            rest()


def _insert(
    connection: sqlite3.Connection,
    part: TableRows,
    renumber: Mapping[str, Callable[[Any], int | None]],
    made: Mapping[str, str],
    rest: Callable[[], None] = lambda: None,
) -> None:
    """Insert the rows with renumbered keys; a row whose key maps to None is skipped, except that a parent or a sweep
    becomes unknown.
    """
    marks = ", ".join(["?"] * len(part.columns) + list(made.values()))
    sql = f"INSERT INTO {part.table} ({', '.join([*part.columns, *made])}) VALUES ({marks})"
    keys = [
        (part.columns.index(name), change, name in ("parent_id", "sweep_id"))
        for name, change in renumber.items()
        if name in part.columns
    ]
    left = iter(part.rows)
    while rows := list(islice(left, BATCH)):
        connection.executemany(sql, filter(None, (_renumbered(row, keys) for row in rows)))
        rest()


def _renumbered(row: Sequence[Any], keys: Sequence[tuple[int, Callable[[Any], int | None], bool]]) -> list[Any] | None:
    values = list(row)
    for position, change, may_be_unknown in keys:
        values[position] = change(values[position])
        if values[position] is None and not may_be_unknown:
            return None
    return values


def origin_of(old: Origin, file: str, by: str) -> Origin:
    """Return an updated origin: the same run, imported from another file."""
    return replace(old, file=file, imported_at=now(), imported_by=by)


# ------------------------------------------------------------------------------------------------------------------
# Validation of imported rows beyond the tables' own constraints, and error messages for SQLite's errors.

MOST_BUCKET = 1_000_000
MOST_OPERATIONS, MOST_WINDOWS, MOST_NAMES = 2_000_000, 2_000, 65_535
"""Limits of a run's stored trace; our own runs store a sixth of them at most (engine/trace/ring_reader.py)."""
_WRONG_VALUES = (
    sqlite3.IntegrityError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
    sqlite3.DataError,
    OverflowError,
    UnicodeEncodeError,
)
_UNLIKE = """
SELECT m.name FROM metrics AS m LEFT JOIN points AS p ON p.metric_id = m.id WHERE m.run_id = ? GROUP BY m.id
HAVING min(m.count, m.nonfinite, m.thinned) < 0 OR count(p.id) <> m.count + m.nonfinite - m.thinned
    OR (m.thinned = 0 AND (count(p.value) <> m.count OR m.low IS NOT min(p.value) OR m.high IS NOT max(p.value)))
    OR (m.count > 0 AND (m.mean IS NULL OR m.mean < m.low - abs(m.low) / 1e6 OR m.mean > m.high + abs(m.high) / 1e6))
    OR (m.count = 0 AND coalesce(m.low, m.high, m.mean, m.last) IS NOT NULL)
"""
_UNLIKE_LAST = """
SELECT m.name FROM metrics AS m WHERE m.run_id = ?
    AND (m.last IS NOT (SELECT value FROM points WHERE metric_id = m.id AND value IS NOT NULL ORDER BY id DESC LIMIT 1)
        OR m.last_step IS NOT (SELECT step FROM points WHERE metric_id = m.id AND value IS NOT NULL ORDER BY id DESC
            LIMIT 1))
"""
_NEITHER = """
SELECT m.name FROM metrics AS m JOIN points AS p ON p.metric_id = m.id WHERE m.run_id = ?
    AND ((p.value IS NULL) = (p.nonfinite IS NULL) OR p.id < 1)
"""
_OUT_OF_RANGE = (
    f"SELECT name FROM histograms WHERE run_id = ? AND (bucket NOT BETWEEN 0 AND {MOST_BUCKET} OR count < 0)"
)
_WRONG_WINDOW = (
    "SELECT reason FROM trace_windows WHERE run_id = ?1 AND (begin_ns < 0 OR end_ns < begin_ns OR "
    f"end_ns >= {LATEST_NS} OR (SELECT count(*) FROM trace_windows WHERE run_id = ?1) > {MOST_WINDOWS})"
)
_WRONG_TRACE = (
    "SELECT count(*) FROM trace_chunks WHERE run_id = ?1 AND (lost < 0 OR entries < 1 OR rank < 0 "
    "OR rank >= (SELECT count(*) FROM ranks WHERE run_id = ?1)) "
    "HAVING count(*) > 0 "
    f"OR (SELECT total(lost) >= {LATEST_NS} OR total(entries) > {MOST_OPERATIONS} FROM trace_chunks WHERE run_id = ?1)"
)


def check_run(connection: sqlite3.Connection, run_id: int) -> None:
    """Raise ImportRefused for rows that satisfy the tables' constraints but that no store would write."""
    for sql, what in (
        (_NEITHER, "a point of metric '{}' has neither a value nor a marker for a non-finite value"),
        (_UNLIKE, "the summary of metric '{}' doesn't match its points"),
        (_UNLIKE_LAST, "the summary of metric '{}' doesn't end at its last point"),
        (_OUT_OF_RANGE, "histogram '{}' has a count or a bucket out of range"),
        (_WRONG_WINDOW, "a stretch '{}' of the trace is out of range, or there are too many"),
        (_WRONG_TRACE, "the trace has too many operations, or {} parts with a number out of range"),
    ):
        if found := connection.execute(sql, [run_id]).fetchone():
            raise ImportRefused(f"The file is damaged or was edited: {what.format(found[0])}. Export it again.")
    names: set[str] = set()
    for row in connection.execute("SELECT rank, names, content, entries FROM trace_chunks WHERE run_id = ?", [run_id]):
        from engine.trace.chunk import TraceChunk  # NumPy, which most commands don't need

        try:
            names.update(TraceChunk.unpacked(*row).names)
            if len(names) > MOST_NAMES:
                raise StoreDamaged("The stored trace has too many names.")
        except StoreDamaged as error:
            raise ImportRefused(f"The file is damaged or was edited: {error} Export it again.") from error


@contextmanager
def refusing(where: str) -> Iterator[None]:
    """Convert SQLite's errors about values of a file to import errors."""
    try:
        yield
    except (json.JSONDecodeError, RecursionError) as error:
        raise ImportRefused(
            f"The file is damaged or was edited: {where} contains invalid JSON ({error}). Export it again."
        ) from error
    except (KeyError, TypeError) as error:
        raise ImportRefused(
            f"The file is damaged or was edited: {where} refers to {error}, which is missing. Export it again."
        ) from error
    except _WRONG_VALUES as error:
        raise ImportRefused(
            f"The file is damaged or was edited: {where} contains values that the store can't hold ({error}). "
            "Export it again."
        ) from error
