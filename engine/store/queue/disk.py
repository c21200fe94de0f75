"""Disk usage of each run: its folder, as measured by the runner, its points and its texts in the store. A person's
usage is the sum of these rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.store.connection import WriteConnection
from engine.store.curves.ingest import POINT_BYTES
from engine.store.schema.config_text import TEXT_BYTES

_CHANGED = (
    "SELECT id, version FROM runs WHERE version > (SELECT coalesce(max(version), 0) FROM disk) ORDER BY version LIMIT ?"
)
_NOTE = (
    "INSERT INTO disk (run_id, version, file_bytes, point_bytes, text_bytes) SELECT id, ?2, ?3,"
    f" {POINT_BYTES} * (SELECT coalesce(sum(count + nonfinite - thinned), 0) FROM metrics WHERE run_id = "
    f"runs.id), {TEXT_BYTES} FROM runs WHERE id = ?1"
    " ON CONFLICT (run_id) DO UPDATE SET version = excluded.version, file_bytes = excluded.file_bytes, "
    "point_bytes = excluded.point_bytes,"
    " text_bytes = excluded.text_bytes"
)


@dataclass(frozen=True)
class Changed:
    """A run written to since its last measurement."""

    run_id: int
    version: int
    """Its change token at that time."""


class DiskCommands:
    """The runner's commands of disk usage."""

    def __init__(self, db: WriteConnection) -> None:
        self.db = db

    def unmeasured(self, most: int) -> list[Changed]:
        """Return runs written to since the last measurement, the least recently written first.

        Change tokens only grow, and runs are measured in their order: runs with a token above the highest measured one
        are unmeasured.
        """
        return [Changed(row["id"], row["version"]) for row in self.db.rows(_CHANGED, [most])]

    def note(self, measured: Sequence[tuple[Changed, int]]) -> None:
        """Store the measured bytes of some runs' folders; the tokens are those from before the measurement, so that
        later writes are not missed.
        """
        with self.db.change() as connection:
            connection.executemany(_NOTE, [(run.run_id, run.version, size) for run, size in measured])
