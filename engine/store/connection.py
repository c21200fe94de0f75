"""Connections to the store: one for writing, one that can only read, and their failures in sentences."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

from filelock import FileLock, Timeout

from engine.errors import (
    ConfigError,
    NoSuchRun,
    NoSuchSweep,
    Problem,
    StoreBusy,
    StoreDamaged,
    StoreDenied,
    StoreError,
    StoreFull,
)
from engine.home import Home
from engine.store.schema import applied, bring_up_to_date, known
from engine.umask import make_private

Row = sqlite3.Row
SYNCHRONOUS = "NORMAL"
"""With a write-ahead log a killed process loses nothing committed, and a power cut leaves a whole store."""


class Connected:
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


class Writing(Connected):
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


class Reading(Connected):
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


@contextmanager
def told(home: Home, timeout_s: float) -> Iterator[None]:
    """Turn those of SQLite's errors that a person can cure into ours; the rest are bugs and pass."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        sentence = _sentence(error, home, timeout_s)
        if sentence is None:
            raise
        raise sentence from error
    except UnicodeEncodeError as error:
        raise _unstorable("A text holds half a character, as broken bytes give it") from error
    except OverflowError as error:
        if "SQLite" not in str(error):
            raise
        raise _unstorable("A number is larger than any that a store can hold") from error


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
        raise _busy(home, timeout_s) from error


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


def _unstorable(what: str) -> ConfigError:
    return ConfigError([Problem("", f"{what}, so nothing in the store is like it or can be. Write it anew.")])


def _busy(home: Home, timeout_s: float) -> StoreBusy:
    return StoreBusy(
        f"The store {home.database} was held by another program for {timeout_s:g} s. Try again; if it lasts, "
        "end the program that holds it open."
    )


def _sentence(error: sqlite3.DatabaseError, home: Home, timeout_s: float) -> StoreError | None:
    """Return our error for one of SQLite's, with the cure; None for what is a bug of ours."""
    cures = {
        sqlite3.SQLITE_READONLY: "can't be written to. Check who owns it and its folder.",
        sqlite3.SQLITE_CANTOPEN: "can't be opened. Check who owns it and its folder.",
        sqlite3.SQLITE_IOERR: (
            "can't be read or written: its disk reports an error. The doctor command checks the file system."
        ),
        sqlite3.SQLITE_CORRUPT: "is damaged. Put a backup in its place, or move it away to begin a new one.",
        sqlite3.SQLITE_NOTADB: "is not an SQLite database. Move that file away, or name another PARALLAB_HOME.",
    }
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the primary code; the rest of an extended one tells where
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return _busy(home, timeout_s)
    if code == sqlite3.SQLITE_FULL:
        return StoreFull(
            f"The store {home.database} is on a disk that is full. Free some space; what was recorded so far is kept."
        )
    kinds = dict.fromkeys((sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB), StoreDamaged) | dict.fromkeys(
        (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN), StoreDenied
    )
    return kinds.get(code, StoreError)(f"The store {home.database} {cures[code]}") if code in cures else None
