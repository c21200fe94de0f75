"""Complete copies of the store: made during writes, and validated before they replace a store."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from engine.errors import StoreError
from engine.home import Home, make_private
from engine.store.connection import ReadConnection, as_store_errors
from engine.store.curves.ingest import drop_hidden
from engine.store.schema.upgrade import applied, known

STEP_PAGES = 500
"""Pages (of 4 kB) copied at a time; writers and the disk get a pause after each."""
PAUSE_S = 0.002
TIMEOUT_S = 30.0


def copy_store(home: Home, target: Path, *, pause_s: float = PAUSE_S) -> int:
    """Write a snapshot of the store to the new file `target`; return its number of runs.

    The copy is made within one read transaction: writers continue and never restart it. It is one file without a
    write-ahead log. Raises StoreError if there is no store or no space for the copy.
    """
    if not home.database.exists():
        raise StoreError(f"{home.path} has no store to back up: no run has been launched yet.")
    make_private(target)
    with (
        ReadConnection.open(home, TIMEOUT_S) as source,
        as_store_errors(home, TIMEOUT_S),
        closing(sqlite3.connect(target, timeout=TIMEOUT_S)) as copy,
    ):
        with source.snapshot():
            runs = int(source.rows("SELECT count(*) FROM runs")[0][0])
            source.connection.backup(copy, pages=STEP_PAGES, progress=lambda *_: time.sleep(pause_s))
        drop_hidden(copy)
        copy.execute("PRAGMA journal_mode = DELETE")
    return runs


def examine_copy(path: Path) -> int:
    """Return the number of runs of a copy; raises StoreError for a foreign or damaged file, StoreTooNew for a newer
    schema.
    """
    with _opened(path) as copy:
        if not applied(copy, path) & known():
            raise StoreError(
                f"{path} is an SQLite database but not a Parallab store. Choose a file made by the backup command."
            )
        problems = [str(row[0]) for row in copy.execute("PRAGMA integrity_check(3)") if row[0] != "ok"]
        problems += [
            f"a row of {row[0]} refers to a missing row of {row[2]}"
            for row in copy.execute("PRAGMA foreign_key_check").fetchmany(3)
        ]
        if problems:
            raise StoreError(f"{path} is damaged: {'; '.join(problems)}. Use another backup.")
        return int(copy.execute("SELECT count(*) FROM runs").fetchone()[0])


def empty_log(path: Path) -> bool:
    """Move a store's write-ahead log into the store; return whether nothing is left in it."""
    try:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.Error:
        return False
    log = path.with_name(f"{path.name}-wal")
    return not log.exists() or log.stat().st_size == 0


def run_ids(path: Path) -> set[int]:
    """Return the ids of the runs in a copy."""
    with _opened(path) as copy:
        return {row[0] for row in copy.execute("SELECT id FROM runs")}


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a file that nobody writes to, without creating further files."""
    if not path.is_file():
        raise StoreError(f"File {path} doesn't exist. `python -m engine backup --list` shows all backups.")
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
            yield connection
    except sqlite3.DatabaseError as error:
        raise StoreError(f"{path} can't be read as an SQLite database ({error}). Use another backup.") from error
