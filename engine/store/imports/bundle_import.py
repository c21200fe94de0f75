"""Import of runs from another store: their rows get new ids, in one validated transaction.

The tables reject wrong types; times, summaries and ranges are checked here.
"""

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from engine.errors import ImportRefused
from engine.store.imports.bundle_checks import check_run, refusing
from engine.store.imports.bundle_tables import NO_LONGER, TableRows, columns_of
from engine.store.imports.sweep_import import ArrivingSweeps
from engine.store.runs.changes import RunChanges
from engine.store.runs.origins import Origin
from engine.store.schema.config_text import keep_whole, listed
from engine.store.schema.minmax_buckets import rebuild
from engine.store.store import Store
from engine.store.timestamps import now

IMPORTED = "imported"
"""Kind of the event that states a run's origin."""
MOST_CURVES = 20_000
"""Maximum number of metrics of one run, counted per rank."""

_ORIGIN = (
    "INSERT INTO origins (run_id, kind, host, original_id, owner, fingerprint, file, imported_at, imported_by) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (fingerprint) DO NOTHING"
)
_VERSION = "(SELECT coalesce(max(version), 0) + 1 FROM runs)"
_PLACE = "(SELECT coalesce(max(place), 0) + 1 FROM runs)"
_COUNTED = (
    "UPDATE runs SET last_point_id = (SELECT coalesce(max(p.id), 0) FROM points AS p JOIN metrics AS m ON m.id = "
    "p.metric_id WHERE m.run_id = ?1) WHERE id = ?1"
)


@contextmanager
def arriving(store: Store, origins: Mapping[int, Origin]) -> Iterator[sqlite3.Connection]:
    """Hold one transaction in which the runs of a file are written, and finish it with their origins."""
    with store.db.change() as connection:
        with refusing("a row"):
            yield connection
        for run_id, origin in origins.items():
            name_origin(connection, run_id, origin)
            RunChanges(store.db).note_event(run_id, IMPORTED, origin.imported_by, origin.words)
            store.db.touch(run_id)


def name_origin(connection: sqlite3.Connection, run_id: int, origin: Origin) -> None:
    """Write a run's origin; raises ImportRefused if it was imported concurrently."""
    told = (
        origin.kind,
        origin.host,
        origin.original_id,
        origin.owner,
        origin.fingerprint,
        origin.file,
        origin.imported_at,
        origin.imported_by,
    )
    if connection.execute(_ORIGIN, [run_id, *told]).rowcount == 0:
        raise ImportRefused(
            f"{origin.file} was imported by another process at the same time, and its runs are already here. "
            "Nothing was written twice."
        )


def admit(
    store: Store, parts: Iterable[TableRows], ids: Mapping[int, int | None], origins: Mapping[int, Origin]
) -> tuple[int, ...]:
    """Write the rows of some runs under the ids in `ids`, and return their sweeps; runs with id None are skipped.

    Raises ImportRefused, in which case nothing is written.
    """
    owner = owner_here(store, origins)
    standing = store.read.access.standing(owner or "")
    with arriving(store, origins) as connection:
        metrics: dict[int, int | None] = {}
        sweeps = ArrivingSweeps(connection, lambda whose: standing.may("extend sweep", [whose]))
        for part in parts:
            with refusing(f"table '{part.table}'"):
                _write(connection, _owned(part, owner), ids, metrics, sweeps)
        for run_id in origins:
            check_run(connection, run_id)
            connection.execute(_COUNTED, [run_id])
        for metric_id in filter(None, metrics.values()):
            if connection.execute("SELECT thinned FROM metrics WHERE id = ?", [metric_id]).fetchone()[0] == 0:
                rebuild(connection, metric_id)
    return sweeps.ids


def _write(
    connection: sqlite3.Connection,
    part: TableRows,
    ids: Mapping[int, int | None],
    metrics: dict[int, int | None],
    sweeps: ArrivingSweeps,
) -> None:
    part = _without(part, NO_LONGER.get(part.table, ()))
    if unknown := set(part.columns) - set(columns_of(connection, part.table)):
        raise ImportRefused(
            f"The file was made by a newer version of Parallab: its table '{part.table}' has a column "
            f"'{min(unknown)}'. Update Parallab."
        )
    if part.table == "origins":
        return
    if part.table == "sweeps":
        sweeps.hold(part)
    elif part.table == "runs":
        keys = {"id": ids.__getitem__, "parent_id": lambda old: ids.get(old), "sweep_id": sweeps.here}
        _insert(
            connection,
            replace(part, rows=_shortened(connection, part, ids)),
            keys,
            {"version": _VERSION, "place": _PLACE},
        )
    elif part.table == "metrics":
        _insert(connection, replace(part, rows=_numbered(connection, part, ids, metrics)), {}, {})
    elif part.table == "points":
        _insert(connection, part, {"metric_id": metrics.__getitem__}, {})
    else:
        _insert(connection, part, {"run_id": ids.__getitem__}, {})


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


def _numbered(
    connection: sqlite3.Connection, part: TableRows, ids: Mapping[int, int | None], metrics: dict[int, int | None]
) -> Iterator[list[Any]]:
    """Yield the rows of the metrics with their new ids, and remember these; metrics of skipped runs map to None."""
    (highest,) = connection.execute("SELECT coalesce(max(id), 0) FROM metrics").fetchone()
    at = {name: position for position, name in enumerate(part.columns)}
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
        highest += 1
        metrics[old] = None if run_id is None else highest
        if run_id is not None:
            yield [
                {"id": highest, "run_id": run_id}.get(name, value)
                for name, value in zip(part.columns, row, strict=True)
            ]


def _insert(
    connection: sqlite3.Connection,
    part: TableRows,
    renumber: Mapping[str, Callable[[Any], int | None]],
    made: Mapping[str, str],
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
    connection.executemany(sql, filter(None, (_renumbered(row, keys) for row in part.rows)))


def _renumbered(row: Sequence[Any], keys: Sequence[tuple[int, Callable[[Any], int | None], bool]]) -> list[Any] | None:
    values = list(row)
    for position, change, may_be_unknown in keys:
        values[position] = change(values[position])
        if values[position] is None and not may_be_unknown:
            return None
    return values


def origin_of(old: Origin, file: str, by: str) -> Origin:
    """Return an updated origin: the same run, imported from another file."""
    return Origin(old.kind, old.host, old.original_id, old.owner, old.fingerprint, file, now(), by)
