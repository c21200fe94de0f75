"""Schema steps of a store, and its migration."""

import sqlite3
from pathlib import Path

from engine.errors import StoreTooNew
from engine.store.schema.migrations import TABLE, steps


def bring_up_to_date(connection: sqlite3.Connection) -> None:
    """Apply all missing steps in one transaction: readers see the schema before or after, never between."""
    from engine.store.schema.sqlite_library import apply  # it takes 0.1 s to import; most stores are up to date

    connection.execute("BEGIN IMMEDIATE")
    try:
        apply(steps, connection)
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def applied(connection: sqlite3.Connection, path: Path) -> set[str]:
    """Return the names of a store's steps; raises StoreTooNew for an unknown one."""
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", [TABLE]).fetchone() is None:
        return set()
    found = {
        str(row[0]) for row in connection.execute(f"SELECT name FROM {TABLE} WHERE migration_set = ?", [steps.name])
    }
    if ahead := sorted(found - known()):
        raise StoreTooNew(
            f"The store {path} was written by a newer version of Parallab (it has the schema step '{ahead[0]}'). "
            "Update Parallab, or set PARALLAB_HOME to another folder."
        )
    return found


def known() -> set[str]:
    """Return the names of all steps of this version."""
    return set(steps.by_name)


def newest() -> str:
    """Return the name of the last step of this version."""
    return list(steps.by_name)[-1]
