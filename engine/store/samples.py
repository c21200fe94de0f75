"""The machine's numbers of the last hour, sampled by the runner; what is older is deleted as new ones come."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from engine.store.connection import Reading, Writing
from engine.store.records import MachineSample

KEPT_S = 3_660.0
"""Age at which a sample is deleted: an hour, and a minute so that a chart of an hour has no gap at its left end."""


def keep(store: Writing, samples: Sequence[MachineSample]) -> None:
    """Keep some samples, and delete those that are too old, or from a future that a clock's jump has left behind."""
    if not samples:
        return
    with store.change() as connection:
        sql = "INSERT OR REPLACE INTO machine_samples (at, source, name, value) VALUES (?, ?, ?, ?)"
        connection.executemany(sql, [(s.at, s.source, s.name, s.value) for s in samples])
        newest = max(sample.at for sample in samples)
        connection.execute("DELETE FROM machine_samples WHERE at < ? OR at > ?", [_before(newest, KEPT_S), newest])


def samples(reader: Reading) -> list[MachineSample]:
    """Return the samples of the last hour that the store has, oldest first."""
    return [
        MachineSample(*row)
        for row in reader.rows("SELECT at, source, name, value FROM machine_samples ORDER BY at, source, name")
    ]


def latest(reader: Reading) -> list[MachineSample]:
    """Return the samples of the newest moment."""
    sql = (
        "SELECT at, source, name, value FROM machine_samples WHERE at = (SELECT max(at) FROM machine_samples) "
        "ORDER BY source, name"
    )
    return [MachineSample(*row) for row in reader.rows(sql)]


def newest(reader: Reading) -> str:
    """Return the moment of the newest sample, empty where there is none."""
    row = reader.row("SELECT max(at) AS at FROM machine_samples")
    return str(row["at"] or "") if row else ""


def _before(at: str, seconds: float) -> str:
    moment = datetime.fromisoformat(at) - timedelta(seconds=seconds)
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
