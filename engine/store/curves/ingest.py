"""Deleting what a run has recorded, and rows that are written in portions and become visible at once."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from sqlite3 import Connection as Sqlite
from typing import Any

from engine.errors import EngineError, ImportRefused
from engine.histograms import HISTOGRAMS
from engine.metrics import METRICS
from engine.store.connection import Connection, Row, WriteConnection
from engine.store.records import ALIVE
from engine.store.schema.minmax_buckets import rebuild

CHUNK = 10_000
"""Rows deleted before a look at the portion's time."""
POINT_BYTES = 48
"""Bytes per point in the file, including its share of pages: measured over 20 million."""


def delete_recorded(db: WriteConnection, run_id: int) -> None:
    """Delete the rows of a run that may be many, in portions; those that remain go with the run."""
    connection = db.connection
    with db.portions() as rest:

        def delete(table: str, key: str, owner: str, of: int) -> None:
            some = f"SELECT {key} FROM {table} WHERE {owner} = ?1 ORDER BY {key} LIMIT {CHUNK}"
            sql = f"DELETE FROM {table} WHERE {owner} = ?1 AND {key} IN ({some})"
            while connection.execute(sql, [of]).rowcount == CHUNK:
                rest()

        for (metric_id,) in connection.execute("SELECT id FROM metrics WHERE run_id = ?", [run_id]).fetchall():
            delete("buckets", "bucket", "metric_id", metric_id)
            delete("points", "id", "metric_id", metric_id)
            connection.execute("DELETE FROM metrics WHERE id = ?", [metric_id])
            rest()
        for name in ("spans", "machine_metrics", "trace_chunks"):
            delete(name, "id", "run_id", run_id)
            rest()


# ------------------------------------------------------------------------------------------------------------------
# Rows that are written in portions and become visible at once: those of an import, and the curves of a resumed run.
# Until the last transaction they refer to a run that `runs` doesn't have. Every query starts from a run, so none
# finds them. A row of `arrivals` lists them; what a killed process has left is deleted by the next import or
# runner.

HIDDEN = (
    *("progress", "ranks", "metrics", "phases", "spans", "histograms", "machine_metrics", "logs", "events", "tags"),
    *("notes", "trace_windows", "trace_chunks", "files", "file_uses"),
)
"""Tables whose rows may be there before their run; points and bucket extremes follow their metrics."""


@dataclass(frozen=True)
class Arrival:
    """The rows of some runs that are hidden."""

    db: WriteConnection
    ids: range

    @contextmanager
    def portions(self) -> Iterator[Callable[[], None]]:
        """Write hidden rows in portions (`WriteConnection.portions`); raises ImportRefused if another process has
        cleared them away.
        """
        self.db.connection.execute("PRAGMA foreign_keys = OFF")  # the runs follow in the last transaction
        try:
            with self.db.portions(self._check) as rest:
                yield rest
        finally:
            self.db.connection.execute("PRAGMA foreign_keys = ON")

    @contextmanager
    def last(self) -> Iterator[Sqlite]:
        """Hold the transaction that makes the rows visible."""
        with self.db.change() as connection:
            self._check()
            yield connection
            connection.execute("DELETE FROM arrivals WHERE first_id = ?", [self.ids.start])

    def _check(self) -> None:
        if not self.db.row("SELECT 1 FROM arrivals WHERE first_id = ?", [self.ids.start]):
            raise ImportRefused("The rows were cleared away by another process as unfinished. Try again.")


def last_id(db: Connection) -> int:
    """Return the highest id that a run has had, or that was reserved for one."""
    row = db.row("SELECT seq FROM sqlite_sequence WHERE name = 'runs'")
    return int(row["seq"]) if row else 0


def count_from(db: WriteConnection, last: int) -> None:
    """Give new runs ids above `last`."""
    with db.change() as connection:
        if not connection.execute("UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = 'runs'", [last]).rowcount:
            connection.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('runs', ?)", [last])


@contextmanager
def arriving_runs(db: WriteConnection, count: int) -> Iterator[Arrival]:
    """Reserve ids that no other run will ever get; if the block fails, the runs' rows and folders are deleted."""
    with db.change():
        first = last_id(db) + 1
        count_from(db, last_id(db) + count)
        here = _begun(db, range(first, first + count))
    with _cleared(here):
        yield here


@contextmanager
def arriving_curves(db: WriteConnection, run_id: int) -> Iterator[Arrival]:
    """Hide curves that are written for an existing run, under the negative of its id; if the block fails, they are
    deleted.
    """
    if (ids := range(-run_id, -run_id + 1)) in hidden(db):
        _clear(db, ids)  # of a worker that was killed
    with db.change():
        here = _begun(db, ids)
    with _cleared(here):
        yield here


def _begun(db: WriteConnection, ids: range) -> Arrival:
    db.connection.execute("INSERT INTO arrivals (first_id, last_id) VALUES (?, ?)", [ids.start, ids.stop - 1])
    return Arrival(db, ids)


@contextmanager
def _cleared(here: Arrival) -> Iterator[None]:
    try:
        yield
    except BaseException:
        with suppress(EngineError):  # the next import or runner clears what stays
            _clear(here.db, here.ids)
        raise


def hidden(db: Connection) -> list[range]:
    """Return the ids of each group of hidden rows."""
    return [range(row[0], row[1] + 1) for row in db.rows("SELECT first_id, last_id FROM arrivals ORDER BY first_id")]


def unfinished(db: Connection) -> list[range]:
    """Return the hidden rows that nobody completes, provided that no import is running."""
    alive = {row[0] for row in db.rows(f"SELECT id FROM runs WHERE status IN ({', '.join('?' * len(ALIVE))})", ALIVE)}
    return [ids for ids in hidden(db) if -ids.start not in alive]


def clear(db: WriteConnection) -> int:
    """Delete what is unfinished, with the runs' folders, and return its number; the caller holds the import lock."""
    found = unfinished(db)
    for ids in found:
        _clear(db, ids)
    return len(found)


def _clear(db: WriteConnection, ids: range) -> None:
    bounds = [ids.start, ids.stop - 1]
    any_of = " UNION ".join(f"SELECT run_id FROM {table} WHERE run_id BETWEEN ?1 AND ?2" for table in HIDDEN)
    for (run_id,) in db.tuples(any_of, bounds):
        delete_recorded(db, run_id)
    with db.portions() as rest:
        for table in HIDDEN:
            db.connection.execute(f"DELETE FROM {table} WHERE run_id BETWEEN ? AND ?", bounds)
            rest()
        db.connection.execute("DELETE FROM arrivals WHERE first_id = ?", bounds[:1])
    for run_id in ids:
        shutil.rmtree(db.home.run_folder(run_id), ignore_errors=True)


def drop_hidden(connection: Sqlite) -> None:
    """Delete the hidden rows from a copy of a store that nobody else uses."""
    connection.execute("PRAGMA foreign_keys = ON")
    for table in HIDDEN:
        among = f"SELECT run_id FROM {table} JOIN arrivals ON run_id BETWEEN first_id AND last_id"
        connection.execute(f"DELETE FROM {table} WHERE run_id IN ({among})")
    connection.execute("DELETE FROM arrivals")
    connection.commit()


# ------------------------------------------------------------------------------------------------------------------
# A resumed run copies its parent's curves up to the checkpoint, so that readers see one continuous run.

_ENDS = ", ".join(f"'{name}'" for name, known in METRICS.items() if not known.live)
_OLD = f"SELECT id, rank, name FROM metrics WHERE run_id = ? AND name NOT IN ({_ENDS})"
_NEW = "INSERT INTO metrics (run_id, rank, name, count, nonfinite) VALUES (?, ?, ?, 0, 0)"
_UNTIL = f"SELECT max(id) FROM (SELECT id FROM points WHERE metric_id = ? AND id > ? ORDER BY id LIMIT {CHUNK})"
_COPY = """INSERT INTO points (metric_id, id, step, time_s, passes, value, nonfinite)
    SELECT :new, id, step, time_s, passes, value, nonfinite FROM points
        WHERE metric_id = :old AND id > :after AND id <= :until AND CASE WHEN :last_step IS NOT NULL
            THEN step <= :last_step ELSE time_s <= :time_s AND (:whole OR step <= :step) END"""
"""The points that the checkpoint covers. The last step of a rank that it names decides, as the rank may have recorded
it after the checkpoint's time; not of rank 0, which saved it and may have tested at that step since. A metric of the
whole run counts other steps, so only time decides.
"""
_SUMMARY_OF_COPY = """SELECT :id AS id, count(value) AS count, count(nonfinite) AS nonfinite, min(value) AS low,
    max(value) AS high, max(id) AS highest, max(time_s) AS time_s,
    (SELECT sum(value / :count) FROM points WHERE metric_id = :id) AS mean
    FROM points WHERE metric_id = :id"""
_FINITE = "SELECT count(value) FROM points WHERE metric_id = ?"
_SHOW = """UPDATE metrics SET run_id = :child,
    (count, nonfinite, low, high, mean) = (:count, :nonfinite, :low, :high, :mean),
    (last, last_step) = (SELECT value, step FROM points WHERE metric_id = :id AND value IS NOT NULL
        ORDER BY id DESC LIMIT 1)
    WHERE id = :id"""
_HISTOGRAM = """SELECT m.rank, CAST(p.value AS INTEGER) AS bucket, count(*) AS count FROM metrics AS m
    JOIN points AS p ON p.metric_id = m.id
    WHERE m.run_id = :child AND m.name = :metric AND p.value IS NOT NULL
        AND m.rank IN (SELECT rank FROM histograms WHERE run_id = :parent AND name = :histogram) GROUP BY m.rank, 2"""


@contextmanager
def take_over(
    db: WriteConnection, child: int, parent: int, *, step: int, time_s: float, steps: Mapping[int, int]
) -> Iterator[tuple[Sqlite, float]]:
    """Copy the parent's points up to a step and a time into a run without points, with their summaries; of ranks in
    `steps`, those up to that step. The block is in the transaction that makes them visible, and gets the training time
    (s) so far: no copied point is later.

    Points keep their ids, which increase through a run. A histogram can't be cut at a time, so histograms whose values
    a metric records one by one are recounted from it.
    """
    with arriving_curves(db, child) as here:
        made = here.ids.start
        with here.portions() as rest:
            for old in db.connection.execute(_OLD, [parent]).fetchall():
                bounds = {"step": step, "time_s": time_s, "last_step": steps.get(old["rank"]) if old["rank"] else None}
                _copy(db.connection, made, old, bounds, rest)
        summaries = [_summary_of_copy(db, row[0]) for row in db.rows("SELECT id FROM metrics WHERE run_id = ?", [made])]
        counts = [
            (child, row["rank"], known.name, row["bucket"], row["count"])
            for known in HISTOGRAMS.values()
            for row in db.rows(
                _HISTOGRAM, {"child": made, "parent": parent, "metric": known.metric, "histogram": known.name}
            )
        ]
        with here.last() as connection:
            connection.executemany(_SHOW, [{**summary, "child": child} for summary in summaries])
            connection.executemany(
                "INSERT INTO histograms (run_id, rank, name, bucket, count) VALUES (?, ?, ?, ?, ?)", counts
            )
            last = max((summary["highest"] for summary in summaries), default=0)
            connection.execute("UPDATE runs SET last_point_id = ? WHERE id = ?", [last, child])
            yield connection, max([time_s, *(summary["time_s"] for summary in summaries)])


def _copy(connection: Sqlite, child: int, old: Row, bounds: dict[str, Any], rest: Callable[[], None]) -> None:
    """Copy one curve; a curve without points up to the checkpoint is left out."""
    new = connection.execute(_NEW, [child, old["rank"], old["name"]]).lastrowid
    after, copied = -1, 0
    while (until := connection.execute(_UNTIL, [old["id"], after]).fetchone()[0]) is not None:
        ids = {"new": new, "old": old["id"], "after": after, "until": until, "whole": old["rank"] is None}
        copied += connection.execute(_COPY, bounds | ids).rowcount
        after = until
        rest()
    if copied:
        rebuild(connection, new or 0, rest)
    else:
        connection.execute("DELETE FROM metrics WHERE id = ?", [new])


def _summary_of_copy(db: WriteConnection, metric_id: int) -> dict[str, Any]:
    (finite,) = db.rows(_FINITE, [metric_id])[0]
    return dict(db.rows(_SUMMARY_OF_COPY, {"id": metric_id, "count": finite})[0])
