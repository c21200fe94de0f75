"""Measurements of the machine over the last hour, sampled by the runner; older ones are deleted when new ones
arrive.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from engine.store.connection import Connection, WriteConnection
from engine.store.curve_records import MachineSample

KEPT_S = 3_660.0
"""Age at which a sample is deleted: an hour, plus a minute so that a chart of an hour has no gap at its left end."""


class MachineReader:
    """Queries of the samples of the last hour."""

    def __init__(self, db: Connection) -> None:
        self.db = db

    def samples(self) -> list[MachineSample]:
        """Return the runner's samples of the last hour, oldest first."""
        return [
            MachineSample(*row)
            for row in self.db.rows("SELECT at, source, name, value FROM machine_samples ORDER BY at, source, name")
        ]

    def latest(self) -> list[MachineSample]:
        """Return the newest sample of each measurement."""
        sql = (
            "SELECT at, source, name, value FROM machine_samples WHERE at = (SELECT max(at) FROM machine_samples) "
            "ORDER BY source, name"
        )
        return [MachineSample(*row) for row in self.db.rows(sql)]

    def newest(self) -> str:
        """Return the time of the newest sample, empty if there is none."""
        row = self.db.row("SELECT max(at) AS at FROM machine_samples")
        return str(row["at"] or "") if row else ""


class MachineCommands:
    """The runner's commands for samples."""

    def __init__(self, db: WriteConnection) -> None:
        self.db = db

    def add(self, found: Sequence[MachineSample]) -> None:
        """Store samples, and delete those that are too old or in the future."""
        if not found:
            return
        with self.db.change() as connection:
            sql = "INSERT OR REPLACE INTO machine_samples (at, source, name, value) VALUES (?, ?, ?, ?)"
            connection.executemany(sql, [(s.at, s.source, s.name, s.value) for s in found])
            newest = max(sample.at for sample in found)
            connection.execute("DELETE FROM machine_samples WHERE at < ? OR at > ?", [_before(newest, KEPT_S), newest])


def _before(at: str, seconds: float) -> str:
    moment = datetime.fromisoformat(at) - timedelta(seconds=seconds)
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
