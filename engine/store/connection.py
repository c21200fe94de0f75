"""Connections to the store: one for writing, one read-only. The parts of the store hold one of them."""

import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Self, TypeVar

from filelock import FileLock, Timeout

from engine.access.confusables import sort_key
from engine.errors import (
    ConfigError,
    NoSuchRun,
    NoSuchSweep,
    StoreBusy,
    StoreDamaged,
    StoreDenied,
    StoreError,
    StoreFull,
    StoreGone,
)
from engine.home import Home, flush, make_private
from engine.store.schema.upgrade import applied, bring_up_to_date, known

Row = sqlite3.Row
T = TypeVar("T")
SYNCHRONOUS = "NORMAL"
"""With a write-ahead log a killed process loses no committed data, and a power failure leaves a consistent store."""
POLL_S = 0.005
"""Interval at which a writer tries to get the write lock; SQLite's own grows to 100 ms and would miss every gap."""
PORTION_S = 0.1
"""Time after which a long write lets others write."""
GAP_S = 0.025
"""Time that it gives them: SQLite keeps no queue, so that without a gap the same process would get the lock again."""


class Connection:
    """One connection for one thread; a context manager."""

    def __init__(self, home: Home, connection: sqlite3.Connection, timeout_s: float) -> None:
        self.home = home
        self.timeout_s = timeout_s
        self.connection = _equipped(connection)

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def as_store_errors(self) -> Iterator[None]:
        """Convert SQLite's errors to ours."""
        with as_store_errors(self.home, self.timeout_s):
            yield

    def rows(self, sql: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> list[Row]:
        """Return all rows of a query."""
        with self.as_store_errors():
            return self.connection.execute(sql, values).fetchall()

    def row(self, sql: str, values: Sequence[Any] = ()) -> Row | None:
        """Return the first row of a query, or None."""
        with self.as_store_errors():
            found: Row | None = self.connection.execute(sql, values).fetchone()
            return found

    def exists(self, sql: str, values: Sequence[Any] = ()) -> bool:
        """Return whether a query has a row."""
        return self.row(sql, values) is not None

    def number(self, sql: str, values: Sequence[Any] = ()) -> int:
        """Return the whole number of a query's first row; 0 for none."""
        row = self.row(sql, values)
        return int(row[0] or 0) if row else 0

    def column(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        """Return the first column of all rows of a query."""
        return [row[0] for row in self.rows(sql, values)]

    def records(self, kind: Callable[..., T], sql: str, values: Sequence[Any] = ()) -> list[T]:
        """Return all rows of a query as records whose fields are its columns, in order."""
        return [kind(*row) for row in self.rows(sql, values)]

    def tuples(self, sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return all rows of a query as tuples, which is faster for many."""
        with self.as_store_errors():
            cursor = self.connection.cursor()
            cursor.row_factory = None
            return cursor.execute(sql, values).fetchall()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Run all queries of a block on one snapshot of the store; a nested block shares the outer one's."""
        with self.as_store_errors():
            if self.connection.in_transaction:
                yield
                return
            self.connection.execute("BEGIN")
            try:
                yield
            finally:
                self.connection.execute("ROLLBACK")

    def no_such_run(self, run_id: int) -> NoSuchRun:
        """Return the error for an unknown run."""
        return NoSuchRun(
            f"Run {run_id} doesn't exist in {self.home.database}. The list command and the Runs page show all runs."
        )

    def no_such_sweep(self, sweep_id: int) -> NoSuchSweep:
        """Return the error for an unknown sweep."""
        return NoSuchSweep(f"Sweep {sweep_id} doesn't exist in {self.home.database}. The Sweep page shows all sweeps.")


class WriteConnection(Connection):
    """A connection for writing: each change is one immediate transaction."""

    @classmethod
    def open(cls, home: Home, timeout_s: float = 30.0) -> Self:
        """Open the store, creating and migrating it if necessary; raises StoreTooNew, StoreBusy, StoreError."""
        try:
            home.create()
        except OSError as error:
            raise StoreError(
                f"The home {home.path} can't be created: {error.strerror}. Set PARALLAB_HOME to another folder."
            ) from error
        make_private(home.database)  # SQLite gives its log and its shared memory the same mode
        with as_store_errors(home, timeout_s):
            connection = sqlite3.connect(home.database, timeout=timeout_s, isolation_level=None)
            try:
                _prepare(connection, home, timeout_s)
            except BaseException:
                connection.close()
                raise
        opened = cls(home, connection, timeout_s)
        opened._file = _file_of(home)
        return opened

    _file: tuple[int, int] | None = None
    _after_rollback: tuple[Callable[[], None], ...] = ()

    def check_there(self) -> None:
        """Raise StoreGone if the store was deleted, moved or replaced: what is written would be lost with the file."""
        if _file_of(self.home) != self._file:
            raise StoreGone(
                f"The store {self.home.database} was deleted, moved or replaced while this process (pid {os.getpid()}) "
                "used it. Nothing more is written. Start it again."
            )

    @contextmanager
    def change(self) -> Iterator[sqlite3.Connection]:
        """Hold the write lock for a block, which is committed completely or not at all; a nested block joins the outer
        one.
        """
        with self.as_store_errors():
            if self._in_change():
                yield self.connection
                return
            try:
                self._begin()
                yield self.connection
                self.connection.execute("COMMIT")
                self._after_rollback = ()
            finally:
                if self._in_change():
                    self.connection.execute("ROLLBACK")
                self._call_after_rollback()

    def _call_after_rollback(self) -> None:
        acts, self._after_rollback = self._after_rollback, ()
        for act in acts:
            act()

    def after_rollback(self, act: Callable[[], None]) -> None:
        """Call `act` if the change that is in progress, with all outer ones, is rolled back."""
        self._after_rollback += (act,)

    def insert(self, table: str, values: Mapping[str, Any], otherwise: str = "ABORT", **expressions: str) -> int:
        """Add a row, within a change, and return its id; `otherwise` says what happens to one that is there (SQLite's
        conflict clause), `expressions` are columns whose values are SQL.
        """
        columns, made = ", ".join([*values, *expressions]), ", ".join([*"?" * len(values), *expressions.values()])
        sql = f"INSERT OR {otherwise} INTO {table} ({columns}) VALUES ({made})"
        found = self.connection.execute(sql, list(values.values())).lastrowid
        assert found is not None
        return found

    def sync(self) -> None:
        """Flush all commits to disk: SQLite itself flushes them only when it moves them from the log into the store."""
        with suppress(FileNotFoundError):
            flush(self.home.database.with_name(f"{self.home.database.name}-wal"))

    @contextmanager
    def portions(self, check: Callable[[], None] = lambda: None) -> Iterator[Callable[[], None]]:
        """Hold the write lock for a block in portions: the yielded function, called wherever the rows are consistent,
        commits them after `PORTION_S` and lets others write. Each portion begins with `check`; a failure undoes the
        last portion only.
        """
        assert not self._in_change(), "a change can't be divided into portions"
        begun = 0.0

        def begin() -> None:
            nonlocal begun
            self._begin()
            check()
            begun = time.monotonic()

        def rest() -> None:
            if time.monotonic() - begun >= PORTION_S:
                self.connection.execute("COMMIT")
                time.sleep(GAP_S)
                begin()

        with self.as_store_errors():
            try:
                begin()
                yield rest
                self.connection.execute("COMMIT")
            finally:
                if self._in_change():
                    self.connection.execute("ROLLBACK")

    def _begin(self) -> None:
        """Wait for the write lock, at most `timeout_s`."""
        deadline = time.monotonic() + self.timeout_s
        self.connection.execute("PRAGMA busy_timeout = 0")
        try:
            while True:
                try:
                    self.connection.execute("BEGIN IMMEDIATE")
                    break
                except sqlite3.OperationalError as error:
                    if not is_busy(error) or time.monotonic() >= deadline:
                        raise
                time.sleep(POLL_S)
        finally:
            self.connection.execute(f"PRAGMA busy_timeout = {round(self.timeout_s * 1_000)}")
        try:
            self.check_there()
        except StoreGone:
            self.connection.execute("ROLLBACK")
            raise

    def _in_change(self) -> bool:
        return self.connection.in_transaction

    def touch(self, run_id: int) -> None:
        """Give the run a new change token, within a change; raises NoSuchRun."""
        sql = "UPDATE runs SET version = (SELECT max(version) + 1 FROM runs) WHERE id = ?"
        if self.connection.execute(sql, [run_id]).rowcount == 0:
            raise self.no_such_run(run_id)


class ReadConnection(Connection):
    """A read-only connection; a missing store reads as an empty one."""

    @classmethod
    def open(cls, home: Home, timeout_s: float = 2.0) -> Self:
        """Open the store read-only; raises StoreTooNew, StoreBusy, StoreError."""
        found = _find(home, timeout_s)
        opened = cls(home, found or _empty(), timeout_s)
        opened._waits, opened._file = found is None, _file_of(home)
        return opened

    _waits = False
    _file: tuple[int, int] | None = None

    @contextmanager
    def as_store_errors(self) -> Iterator[None]:
        """Convert SQLite's errors to ours; first follow a store that was created, replaced or deleted meanwhile."""
        if not self.connection.in_transaction and (self._waits or _file_of(self.home) != self._file):
            self._reopen()
        with super().as_store_errors():
            yield

    def _reopen(self) -> None:
        file, found = _file_of(self.home), _find(self.home, self.timeout_s)
        if found is None and self._waits:
            return
        self.connection.close()
        self.connection = _equipped(found or _empty())
        self._waits, self._file = found is None, file


def _equipped(connection: sqlite3.Connection) -> sqlite3.Connection:
    """Return the connection with our rows and our function that sorts names."""
    connection.row_factory = Row
    connection.create_function("sort_key", 1, sort_key, deterministic=True)
    return connection


def _file_of(home: Home) -> tuple[int, int] | None:
    """Return the identity of the store's file, None without one."""
    try:
        about = home.database.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return about.st_dev, about.st_ino


def _prepare(connection: sqlite3.Connection, home: Home, timeout_s: float) -> None:
    """Configure the connection and migrate the schema, one process at a time."""
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
                    f"The file system of {home.path} doesn't support a write-ahead log (only '{mode}'). Set "
                    "PARALLAB_HOME to a local disk."
                )
            bring_up_to_date(connection)
    except Timeout as error:
        raise busy(home, timeout_s) from error


def _journal(connection: sqlite3.Connection, change: str = "") -> str:
    return str(connection.execute(f"PRAGMA journal_mode {change}").fetchone()[0])


def _find(home: Home, timeout_s: float) -> sqlite3.Connection | None:
    """Return a read-only connection, or None if there is no store yet or it is being created."""
    if not home.database.exists():
        return None
    with as_store_errors(home, timeout_s):
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
            f"'{min(known() - found)}'). Start the runner once (the serve command) to migrate it."
        )
    return None


def _empty() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    bring_up_to_date(connection)
    return connection


# ---- Error messages for SQLite's errors that a person can fix ------------------------------------------------------


@contextmanager
def as_store_errors(home: Home, timeout_s: float) -> Iterator[None]:
    """Convert SQLite's errors that a person can fix to ours; others are bugs and propagate."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        sentence = _sentence(error, home, timeout_s)
        if sentence is None:
            raise
        raise sentence from error
    except UnicodeEncodeError as error:
        raise _unstorable("The text is not valid Unicode (it contains a lone surrogate)") from error
    except OverflowError as error:
        if "SQLite" not in str(error):
            raise
        raise _unstorable("The number exceeds the store's range (64-bit)") from error


def _unstorable(what: str) -> ConfigError:
    return ConfigError.of("", f"{what}. Correct it.")


def busy(home: Home, timeout_s: float) -> StoreBusy:
    """Return the error for a store that was locked for the whole timeout."""
    return StoreBusy(
        f"The store {home.database} was locked by another program for {timeout_s:g} s. Try again; if the error "
        "persists, end that program."
    )


def is_busy(error: sqlite3.DatabaseError) -> bool:
    """Return whether another connection holds the lock."""
    return _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _code(error: sqlite3.DatabaseError) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF  # the primary code; the rest of an extended one tells where


def _sentence(error: sqlite3.DatabaseError, home: Home, timeout_s: float) -> StoreError | None:
    """Return our error for one of SQLite's, with the cure; None for a bug of ours."""
    cures = {
        sqlite3.SQLITE_READONLY: "can't be written. Check the owner of the file and its folder.",
        sqlite3.SQLITE_CANTOPEN: "can't be opened. Check the owner of the file and its folder.",
        sqlite3.SQLITE_IOERR: (
            "can't be read or written: the disk reports an error. The doctor command checks the file system."
        ),
        sqlite3.SQLITE_CORRUPT: "is damaged. Restore a backup, or move the file away to start with an empty store.",
        sqlite3.SQLITE_NOTADB: "is not an SQLite database. Move the file away, or set PARALLAB_HOME to another folder.",
    }
    if is_busy(error):
        return busy(home, timeout_s)
    code = _code(error)
    if code == sqlite3.SQLITE_FULL:
        return StoreFull(f"The store {home.database} is on a full disk. Free some space; recorded data is kept.")
    kinds = dict.fromkeys((sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB), StoreDamaged) | dict.fromkeys(
        (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN), StoreDenied
    )
    return kinds.get(code, StoreError)(f"The store {home.database} {cures[code]}") if code in cures else None
