"""The application of schema steps by sqlite-utils.

Imported only to migrate a store: sqlite-utils takes as long to import as all other modules of a simple command.
"""

import sqlite3
import sys
from collections.abc import Callable

from engine.store.schema.migrations import Step, Steps

_pandas = sys.modules.get("pandas")
sys.modules["pandas"] = None  # type: ignore[assignment]  # an import of it now raises ImportError, which sqlite-utils takes for "not installed"
try:
    from sqlite_utils import Database, Migrations
finally:
    if _pandas is None:
        del sys.modules["pandas"]
    else:
        sys.modules["pandas"] = _pandas


def apply(steps: Steps, connection: sqlite3.Connection) -> None:
    """Apply all missing steps and record them."""
    migrations = Migrations(steps.name)
    for name, step in steps.by_name.items():
        migrations(name=name)(_on_database(step))
    migrations.apply(Database(connection))


def _on_database(step: Step) -> Callable[[Database], None]:
    """Return a step on a connection as one on sqlite-utils' database."""

    def on_database(db: Database) -> None:
        step(db.conn)

    return on_database
