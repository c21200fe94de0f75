"""SQLite's errors in sentences: which of them a person can cure, and how."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from engine.errors import ConfigError, Problem, StoreBusy, StoreDamaged, StoreDenied, StoreError, StoreFull
from engine.home import Home


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


def _unstorable(what: str) -> ConfigError:
    return ConfigError([Problem("", f"{what}, so nothing in the store is like it or can be. Write it anew.")])


def busy(home: Home, timeout_s: float) -> StoreBusy:
    """Return the error for a store that another program held for the whole timeout."""
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
        return busy(home, timeout_s)
    if code == sqlite3.SQLITE_FULL:
        return StoreFull(
            f"The store {home.database} is on a disk that is full. Free some space; what was recorded so far is kept."
        )
    kinds = dict.fromkeys((sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB), StoreDamaged) | dict.fromkeys(
        (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN), StoreDenied
    )
    return kinds.get(code, StoreError)(f"The store {home.database} {cures[code]}") if code in cures else None
