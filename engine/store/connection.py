"""Connections to the store: one for writing, one that can only read. The parts of the store hold one of them."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

from filelock import FileLock, Timeout

from engine.errors import NoSuchRun, NoSuchSweep, StoreError
from engine.home import Home
from engine.store.schema.upgrade import applied, bring_up_to_date, known
from engine.store.sqlite_errors import busy, told
from engine.umask import make_private

Row = sqlite3.Row
SYNCHRONOUS = "NORMAL"
"""With a write-ahead log a killed process loses nothing committed, and a power cut leaves a whole store."""


class Connection:
    """One connection for one thread; a context manager."""

    def __init__(self, home: Home, connection: sqlite3.Connection, timeout_s: float) -> None:
        connection.row_factory = Row
        self.home = home
        self.timeout_s = timeout_s
        self.connection = connection

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def told(self) -> Iterator[None]:
        """Turn SQLite's errors into ours."""
        with told(self.home, self.timeout_s):
            yield

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        """Return all rows of a query."""
        with self.told():
            return self.connection.execute(sql, values).fetchall()

    def row(self, sql: str, values: Sequence[Any] = ()) -> Row | None:
        """Return the first row of a query, or None."""
        with self.told():
            found: Row | None = self.connection.execute(sql, values).fetchone()
            return found

    def tuples(self, sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return all rows of a query as tuples, which is faster for many."""
        with self.told():
            cursor = self.connection.cursor()
            cursor.row_factory = None
            return cursor.execute(sql, values).fetchall()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Let all queries of a block see the store at one moment; a block inside another sees the outer one's."""
        with self.told():
            if self.connection.in_transaction:
                yield
                return
            self.connection.execute("BEGIN")
            try:
                yield
            finally:
                self.connection.execute("ROLLBACK")

    def no_such_run(self, run_id: int) -> NoSuchRun:
        """Return the error for a run that is not there."""
        return NoSuchRun(
            f"No run has the id {run_id} in {self.home.database}. The list command and the Runs page show "
            "which there are."
        )

    def no_such_sweep(self, sweep_id: int) -> NoSuchSweep:
        """Return the error for a sweep that is not there."""
        return NoSuchSweep(
            f"No sweep has the id {sweep_id} in {self.home.database}. The Sweep page shows which there are."
        )


class WriteConnection(Connection):
    """A connection that writes: each change is one immediate transaction."""

    @classmethod
    def open(cls, home: Home, timeout_s: float = 30.0) -> Self:
        """Open the store, made and brought up to date where needed; raises StoreTooNew, StoreBusy, StoreError."""
        try:
            home.create()
        except OSError as error:
            raise StoreError(
                f"The home {home.path} can't be made: {error.strerror}. Name another folder in PARALLAB_HOME."
            ) from error
        make_private(home.database)  # SQLite gives its log and its shared memory the same mode
        with told(home, timeout_s):
            connection = sqlite3.connect(home.database, timeout=timeout_s, isolation_level=None)
            try:
                _prepare(connection, home, timeout_s)
            except BaseException:
                connection.close()
                raise
        return cls(home, connection, timeout_s)

    @contextmanager
    def change(self) -> Iterator[sqlite3.Connection]:
        """Hold the write lock for a block, which is kept whole or not at all; a block inside another is part of that
        one.
        """
        with self.told():
            if self._in_change():
                yield self.connection
                return
            try:
                self.connection.execute("BEGIN IMMEDIATE")
                yield self.connection
                self.connection.execute("COMMIT")
            finally:
                if self._in_change():
                    self.connection.execute("ROLLBACK")

    def _in_change(self) -> bool:
        return self.connection.in_transaction

    def touch(self, run_id: int) -> None:
        """Give the run a new change token, inside a change; raises NoSuchRun."""
        sql = "UPDATE runs SET version = (SELECT max(version) + 1 FROM runs) WHERE id = ?"
        if self.connection.execute(sql, [run_id]).rowcount == 0:
            raise self.no_such_run(run_id)


class ReadConnection(Connection):
    """A connection that can't write; while there is no store it reads as an empty one."""

    @classmethod
    def open(cls, home: Home, timeout_s: float = 2.0) -> Self:
        """Open the store read-only; raises StoreTooNew, StoreBusy, StoreError."""
        found = _find(home, timeout_s)
        opened = cls(home, found or _empty(), timeout_s)
        opened._waits = found is None
        return opened

    _waits = False

    @contextmanager
    def told(self) -> Iterator[None]:
        """Turn SQLite's errors into ours; look first whether a store has come to be."""
        if self._waits and not self.connection.in_transaction and (found := _find(self.home, self.timeout_s)):
            self.connection.close()
            self.connection, self._waits = found, False
            found.row_factory = Row
        with super().told():
            yield


def _prepare(connection: sqlite3.Connection, home: Home, timeout_s: float) -> None:
    """Set the connection up and bring the schema up to date, one process at a time."""
    connection.execute(f"PRAGMA synchronous = {SYNCHRONOUS}")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute(f"PRAGMA journal_size_limit = {64 << 20}")
    if applied(connection, home.database) == known() and _journal(connection) == "wal":
        return
    try:
        with FileLock(home.schema_lock, timeout=timeout_s):
            connection.execute(
                "PRAGMA auto_vacuum = INCREMENTAL"
            )  # takes effect in a new file alone: gc can then give room back
            if (mode := _journal(connection, "= WAL")) != "wal":
                raise StoreError(
                    f"The file system of {home.path} offers no write-ahead log (only '{mode}'). Put "
                    "PARALLAB_HOME on a local disk."
                )
            bring_up_to_date(connection)
    except Timeout as error:
        raise busy(home, timeout_s) from error


def _journal(connection: sqlite3.Connection, change: str = "") -> str:
    return str(connection.execute(f"PRAGMA journal_mode {change}").fetchone()[0])


def _find(home: Home, timeout_s: float) -> sqlite3.Connection | None:
    """Return a read-only connection, or None where there is no store yet or it is being made this moment."""
    if not home.database.exists():
        return None
    with told(home, timeout_s):
        connection = sqlite3.connect(
            f"{home.database.as_uri()}?mode=ro", uri=True, timeout=timeout_s, isolation_level=None
        )
        try:
            found = applied(connection, home.database)
        except BaseException:
            connection.close()
            raise
    if found == known():
        return connection
    connection.close()
    if found:
        raise StoreError(
            f"The store {home.database} was written by an older Parallab (it lacks the schema step "
            f"'{min(known() - found)}')."
            " Start the runner once (the serve command) and it is brought up to date."
        )
    return None


def _empty() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    bring_up_to_date(connection)
    return connection
