"""Integrity checks of a store: one query per kind of problem, and the change that fixes it."""

import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from engine.store.curves.ingest import HIDDEN, hidden
from engine.store.records import ALIVE, ProcessIdentity
from engine.store.schema.minmax_buckets import rebuild
from engine.store.store import Reader, Store

_COUNTED = """
SELECT m.id, m.run_id, m.rank, m.name, m.count, m.nonfinite, m.thinned, m.last, m.last_step, m.low, m.high,
    count(p.id) AS points, count(p.value) AS finite, min(p.value) AS least, max(p.value) AS greatest
FROM metrics AS m LEFT JOIN points AS p ON p.metric_id = m.id
WHERE m.run_id IN (SELECT id FROM runs WHERE status NOT IN ({})) GROUP BY m.id
"""
_LAST = "SELECT value, step FROM points WHERE metric_id = ? AND value IS NOT NULL ORDER BY id DESC LIMIT 1"
_FROM_POINTS = """
SELECT count(value) AS count, count(*) - count(value) AS nonfinite, min(value) AS low, max(value) AS high FROM points
    WHERE metric_id = ?
"""
_MEAN = "SELECT sum(value / ?2) FROM points WHERE metric_id = ?1"
_MENDED = """
UPDATE metrics SET (count, nonfinite, thinned, low, high, mean) = (:count, :nonfinite, 0, :low, :high, :mean),
    (last, last_step) = (SELECT value, step FROM points WHERE metric_id = :id AND value IS NOT NULL ORDER BY id DESC
        LIMIT 1)
WHERE id = :id
"""
_BEHIND = """
SELECT id FROM runs WHERE last_point_id < (
    SELECT coalesce(max((SELECT max(id) FROM points WHERE metric_id = metrics.id)), 0) FROM metrics
        WHERE run_id = runs.id)
"""
_UNLIKE_BUCKETS = """
SELECT m.id FROM metrics AS m JOIN runs ON runs.id = m.run_id WHERE m.thinned = 0 AND m.count + m.nonfinite > 0 AND (
    (SELECT count(*) FROM buckets WHERE metric_id = m.id) <> (m.count + m.nonfinite + 255) / 256
    OR (SELECT last_id FROM buckets WHERE metric_id = m.id ORDER BY bucket DESC LIMIT 1) IS NOT (SELECT max(id)
        FROM points WHERE metric_id = m.id))
"""


@dataclass(frozen=True)
class Unlike:
    """A summary that does not match its metric's points."""

    metric_id: int
    run_id: int
    name: str
    rank: int | None
    says: str
    holds: str


def damage(store: Store | Reader) -> list[str]:
    """Return the errors of SQLite's integrity check, at most ten lines; empty for an intact file."""
    return [str(row[0]) for row in store.db.rows("PRAGMA integrity_check(10)") if row[0] != "ok"]


_HIDDEN = "EXISTS (SELECT 1 FROM arrivals WHERE {} BETWEEN first_id AND last_id)"
"""Condition on a run: of an unfinished import."""


def strangers(store: Store | Reader) -> list[tuple[str, str, int]]:
    """Return (table, referenced table, count) of rows that refer to a missing row, except those of unfinished
    imports.
    """
    with store.db.snapshot():
        found = Counter((row[0], row[2]) for row in store.db.rows("PRAGMA foreign_key_check"))
        for table in HIDDEN if hidden(store.db) else ():
            sql = f"SELECT count(*) FROM {table} WHERE {_HIDDEN.format('run_id')}"
            found[table, "runs"] -= store.db.rows(sql)[0][0]
    return [(table, other, count) for (table, other), count in found.items() if count > 0]


def remove_strangers(store: Store) -> None:
    """Delete rows that refer to a missing row, as deleting that row would have; links to a missing run or sweep are set
    to NULL. Rows of unfinished imports are kept.
    """
    with store.db.change() as connection:
        for table, key, other in {(row[0], row[3], row[2]) for row in connection.execute("PRAGMA foreign_key_check")}:
            column, parent = next(
                (row[3], row[4]) for row in connection.execute(f"PRAGMA foreign_key_list({table})") if row[0] == key
            )
            missing = f"{column} IS NOT NULL AND {column} NOT IN (SELECT {parent} FROM {other})"
            if column in ("parent_id", "sweep_id"):
                connection.execute(f"UPDATE {table} SET {column} = NULL WHERE {missing}")
            else:
                kept = f" AND NOT {_HIDDEN.format(column)}" if other == "runs" else ""
                connection.execute(f"DELETE FROM {table} WHERE {missing}{kept}")


def unlike_summaries(store: Store | Reader) -> list[Unlike]:
    """Return the summaries of runs without a worker that disagree with their points in count, last, low or high; reads
    every point.
    """
    found = []
    for row in store.db.rows(_COUNTED.format(", ".join(f"'{status}'" for status in ALIVE))):
        last = store.db.row(_LAST, [row["id"]])
        stored = row["count"] + row["nonfinite"] - row["thinned"]
        says = (stored, row["last"], row["last_step"], row["low"], row["high"])
        holds = (row["points"], *(last or (None, None)), row["least"], row["greatest"])
        compared = 3 if row["thinned"] else 5  # beside an infinity the least finite value may be thinned away
        if says[:compared] != holds[:compared] or (not row["thinned"] and row["count"] != row["finite"]):
            found.append(Unlike(row["id"], row["run_id"], row["name"], row["rank"], _words(*says), _words(*holds)))
    return found


def mend_summaries(store: Store, unlike: Sequence[Unlike]) -> None:
    """Recompute summaries, and the bucket extremes of their curves, from the points; their runs have no worker that
    could write meanwhile.
    """
    for each in unlike:
        found = dict(store.db.rows(_FROM_POINTS, [each.metric_id])[0])
        (mean,) = store.db.rows(_MEAN, [each.metric_id, found["count"]])[0]
        with store.db.change() as connection:
            connection.execute(_MENDED, found | {"id": each.metric_id, "mean": mean})
            store.db.touch(each.run_id)
    mend_corners(store, [each.metric_id for each in unlike])


def unlike_corners(store: Store | Reader) -> list[int]:
    """Return the metrics whose bucket extremes do not cover their points."""
    return store.db.column(_UNLIKE_BUCKETS)


def mend_corners(store: Store, metric_ids: Sequence[int]) -> None:
    """Recompute the bucket extremes of curves: in portions, or at once where a worker may add points meanwhile."""
    for metric_id in metric_ids:
        row = store.db.row("SELECT status FROM runs JOIN metrics ON run_id = runs.id WHERE metrics.id = ?", [metric_id])
        with store.db.portions() as rest:
            rebuild(store.db.connection, metric_id, (lambda: None) if row and row["status"] in ALIVE else rest)


def behind(store: Store | Reader) -> list[int]:
    """Return the runs that count fewer points than they have, so that their next point would be refused."""
    return store.db.column(_BEHIND)


def mend_behind(store: Store, run_ids: Sequence[int]) -> None:
    """Let runs continue counting from their last point."""
    sql = (
        "UPDATE runs SET last_point_id = (SELECT max(p.id) FROM points AS p JOIN metrics ON metrics.id = "
        "p.metric_id WHERE metrics.run_id = runs.id)"
    )
    with store.db.change() as connection:
        connection.executemany(f"{sql} WHERE id = ?", [[run_id] for run_id in run_ids])


def logs_of(store: Store | Reader) -> dict[int, int]:
    """Return the number of logs of each run that has begun."""
    sql = f"SELECT run_id, count(*) FROM logs WHERE NOT {_HIDDEN.format('run_id')} GROUP BY run_id"
    return {row[0]: row[1] for row in store.db.rows(sql)}


def forget_logs(store: Store, run_id: int) -> None:
    """Remove the logs of a run whose folder is missing from the store."""
    with store.db.change() as connection:
        connection.execute("DELETE FROM logs WHERE run_id = ?", [run_id])
        store.db.touch(run_id)


@dataclass(frozen=True)
class Stint:
    """When a process belonged to a run: from the run's begin to its end, None for a live run."""

    run_id: int
    begun_at: str
    ended_at: str | None
    worker: ProcessIdentity


def stints_of_pids(store: Store | Reader, boot_id: str) -> dict[int, list[Stint]]:
    """Return by pid when it was the worker or a rank of a run in this boot of the machine, oldest first."""
    worker = "worker_boot_id, worker_pid, worker_started_ticks, worker_pid_namespace"
    sql = (
        f"SELECT worker_pid AS pid, id, begun_at, ended_at, {worker} FROM runs WHERE worker_boot_id = ?1 AND "
        "worker_pid IS NOT NULL AND begun_at IS NOT NULL"
        f" UNION SELECT ranks.pid, id, begun_at, ended_at, {worker} FROM ranks JOIN runs ON runs.id = ranks.run_id"
        " WHERE worker_boot_id = ?1 AND ranks.pid IS NOT NULL AND begun_at IS NOT NULL ORDER BY id"
    )
    found: dict[int, list[Stint]] = {}
    for pid, run_id, begun_at, ended_at, *identity in store.db.rows(sql, [boot_id]):
        found.setdefault(pid, []).append(Stint(run_id, begun_at, ended_at, ProcessIdentity(*identity)))
    return found


def _words(*numbers: object) -> str:
    return "{} points, last {} at step {}, {} to {}".format(
        *("none" if number is None else number for number in numbers)
    )


# ---- Check that a folder's file system supports the store, before it contains data ---------------------------------

SECOND_WRITER = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)
print(database.execute("SELECT count(*) FROM probe").fetchone()[0])
try:
    database.execute("BEGIN IMMEDIATE")
    print("free")
except sqlite3.OperationalError as error:
    print("held" if "locked" in str(error) else error)
"""


def probe(folder: Path) -> str:
    """Return why SQLite's write-ahead log does not work in `folder`; empty if it does.

    Another process must read committed data and find the first one's lock held.
    """
    try:
        with tempfile.TemporaryDirectory(prefix=".probe-", dir=folder) as inside:
            return _try_in(Path(inside) / "probe.db")
    except (OSError, sqlite3.Error) as error:
        return str(error)


def _try_in(path: Path) -> str:
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        mode = database.execute("PRAGMA journal_mode=WAL").fetchone()[0]
        if mode != "wal":
            return f"requested journal mode 'wal', got '{mode}'"
        database.execute("CREATE TABLE probe (value INTEGER)")
        database.execute("INSERT INTO probe VALUES (1)")
        database.execute("BEGIN IMMEDIATE")
        ended = subprocess.run(
            [sys.executable, "-c", SECOND_WRITER, str(path)], capture_output=True, text=True, timeout=60
        )
        database.execute("ROLLBACK")
    if ended.stdout.split() != ["1", "held"]:
        return (
            "a second process should read one row and find the lock held, but reported: "
            f"{(ended.stdout or ended.stderr).strip()}"
        )
    return ""
