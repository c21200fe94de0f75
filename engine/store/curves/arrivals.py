"""Rows that are written in portions and become visible at once: those of an import, and the curves of a resumed run.

Until the last transaction they refer to a run that `runs` doesn't have. Every query starts from a run, so none finds
them. A row of `arrivals` lists them; what a killed process has left is deleted by the next import or runner.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from sqlite3 import Connection as Sqlite

from engine.errors import EngineError, ImportRefused
from engine.store.connection import Connection, WriteConnection
from engine.store.curves.ingest import delete_recorded
from engine.store.records import ALIVE

HIDDEN = (
    *("progress", "ranks", "metrics", "phases", "spans", "histograms", "machine_metrics", "logs", "events", "tags"),
    *("notes", "trace_windows", "trace_chunks"),
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
