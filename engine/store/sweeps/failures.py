"""The end of a sweep of which too many runs ended badly."""

from engine.store.connection import WriteConnection
from engine.store.records import BAD_ENDS
from engine.store.runs.changes import RunChanges
from engine.store.timestamps import now

NEWEST_OF_CELLS = (
    "SELECT * FROM runs WHERE id IN (SELECT max(id) FROM runs WHERE sweep_id = ? GROUP BY config) ORDER BY id"
)
"""The newest try of each cell: tries share their config to the letter."""


class SweepFailures:
    """What a bad end does to the rest of its sweep, inside the change that ends the run."""

    def __init__(self, db: WriteConnection) -> None:
        self.db = db
        self._changes = RunChanges(db)

    def stop(self, run_id: int) -> None:
        """Cancel what is queued of the run's sweep where as many of its cells ended badly as it allows, inside a
        change.
        """
        sweep = self.db.row(
            (
                "SELECT sweeps.* FROM sweeps JOIN runs ON runs.sweep_id = sweeps.id WHERE runs.id = ? AND "
                "stop_after IS NOT NULL"
            ),
            [run_id],
        )
        if sweep is None:
            return
        failures = sum(row["status"] in BAD_ENDS for row in self.db.rows(NEWEST_OF_CELLS, [sweep["id"]]))
        if failures < sweep["stop_after"]:
            return
        bad = "1 run" if failures == 1 else f"{failures} runs"
        cause = (
            f"Cancelled: {bad} of sweep {sweep['id']} ended badly, and it stops after {sweep['stop_after']}. Retry "
            "it once the cause is mended."
        )
        for each in queued_of(self.db, sweep["id"]):
            self.db.connection.execute(
                "UPDATE runs SET status = 'cancelled', cause = ?, ended_at = ? WHERE id = ?", [cause, now(), each]
            )
            self._changes.note_event(each, "cancelled", "runner", cause)
            self.db.touch(each)


def queued_of(db: WriteConnection, sweep_id: int) -> list[int]:
    """Return the queued runs of a sweep, oldest first."""
    return [
        row["id"]
        for row in db.rows("SELECT id FROM runs WHERE sweep_id = ? AND status = 'queued' ORDER BY id", [sweep_id])
    ]
