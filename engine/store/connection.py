"""Connections to the store: one for writing, one that can only read, and their failures in sentences."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

from sqlite_utils import Database

from engine.errors import NoSuchRun, StoreBusy, StoreError
from engine.home import Home
from engine.store.schema import migrate, refuse_newer

Row = sqlite3.Row


class Connected:
    """One connection for one thread; a context manager."""

    def __init__(self, home: Home, connection: sqlite3.Connection, timeout_s: float) -> None:
        connection.row_factory = Row
        self.home = home
        self.timeout_s = timeout_s
        self.db = Database(connection)
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
        try:
            yield
        except sqlite3.OperationalError as error:
            raise translate(error, self.home, self.timeout_s) from error

    def rows(self, sql: str, values: Any = ()) -> list[Row]:
        """Return all rows of a query."""
        with self.told():
            return self.connection.execute(sql, values).fetchall()

    def row(self, sql: str, values: Any = ()) -> Row | None:
        """Return the first row of a query, or None."""
        with self.told():
            found: Row | None = self.connection.execute(sql, values).fetchone()
            return found

    def no_such_run(self, run_id: int) -> NoSuchRun:
        """Return the error for a run that is not there."""
        return NoSuchRun(f"No run has the id {run_id} in {self.home.database}. The list command and the Runs page show which there are.")


class Writing(Connected):
    """A connection that writes: each change is one immediate transaction."""

    @classmethod
    def open(cls, home: Home, timeout_s: float = 30.0) -> Self:
        """Open the store, made and brought up to date where needed; raises StoreTooNew, StoreBusy."""
        home.create()
        try:
            connection = sqlite3.connect(home.database, timeout=timeout_s)
            opened = cls(home, connection, timeout_s)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA foreign_keys = ON")
            migrate(opened.db, home)
        except sqlite3.DatabaseError as error:
            raise translate(error, home, timeout_s) from error
        return opened

    @contextmanager
    def change(self) -> Iterator[sqlite3.Connection]:
        """Hold the write lock for a block, which is kept whole or not at all."""
        with self.told():
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield self.connection
                self.connection.execute("COMMIT")
            except BaseException:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                raise

    def touch(self, run_id: int) -> None:
        """Give the run a new change token, inside a change."""
        self.connection.execute("UPDATE runs SET version = (SELECT max(version) + 1 FROM runs) WHERE id = ?", [run_id])


class Reading(Connected):
    """A connection that can't write."""

    @classmethod
    def open(cls, home: Home, timeout_s: float = 2.0) -> Self:
        """Open the store read-only; a home without one reads as empty. Raises StoreTooNew, StoreBusy."""
        if not home.database.exists():
            return cls(home, _empty(), timeout_s)
        try:
            opened = cls(home, sqlite3.connect(f"{home.database.as_uri()}?mode=ro", uri=True, timeout=timeout_s), timeout_s)
            if opened.connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'runs'").fetchone() is None:
                return cls(home, _empty(), timeout_s)  # it is being made this moment
            refuse_newer(opened.db, home)
        except sqlite3.DatabaseError as error:
            raise translate(error, home, timeout_s) from error
        return opened


def _empty() -> sqlite3.Connection:
    from engine.store.schema import steps

    connection = sqlite3.connect(":memory:")
    steps.apply(Database(connection))
    return connection


def translate(error: sqlite3.DatabaseError, home: Home, timeout_s: float) -> StoreError:
    """Return our error for one of SQLite's, with the cure."""
    text = str(error)
    if "locked" in text or "busy" in text:
        return StoreBusy(
            f"The store {home.database} was held by another program for {timeout_s:g} s. Try again; if it lasts, end the program that holds it open."
        )
    if "full" in text:
        return StoreError(f"The disk that holds {home.database} is full. Free some space; what was recorded so far is kept.")
    if "readonly" in text or "unable to open" in text:
        return StoreError(f"The store {home.database} can't be opened for that ({text}). Check who owns the folder and that it can be written to.")
    return StoreError(f"The store {home.database} does not answer: {text}. The doctor command checks the file system.")
