"""Check that a folder's file system supports the store, before it contains data."""

import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

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
