"""Error messages for SQLite's errors that a person can fix."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from engine.errors import ConfigError, Problem, StoreBusy, StoreDamaged, StoreDenied, StoreError, StoreFull
from engine.home import Home


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
    return ConfigError([Problem("", f"{what}. Correct it.")])


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
