"""The failure limit of sweeps."""

from engine.store.connection import WriteConnection
from engine.store.records import BAD_ENDS
from engine.store.runs.changes import RunChanges

NEWEST_OF_CELLS = (
    "SELECT * FROM runs WHERE id IN (SELECT max(id) FROM runs WHERE sweep_id = ? GROUP BY config) ORDER BY id"
)
"""The newest run of each cell: runs of a cell have identical configs."""


class SweepFailures:
    """Effect of a failure on its sweep, within the change that ends the run."""

    def __init__(self, db: WriteConnection) -> None:
        self.db = db
        self._changes = RunChanges(db)

    def stop(self, run_id: int) -> None:
        """Cancel the queued runs of the run's sweep if its failure limit is reached, within a change."""
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
        runs, were = ("1 run", "was") if failures == 1 else (f"{failures} runs", "were")
        cause = (
            f"Cancelled: {runs} of sweep {sweep['id']} failed or {were} lost; the limit is {sweep['stop_after']} "
            "(stop after). Fix the cause and retry the sweep."
        )
        for each in queued_of(self.db, sweep["id"]):
            self._changes.mark_cancelled(each, cause)
            self._changes.note_event(each, "cancelled", "runner", cause)
            self.db.touch(each)


def queued_of(db: WriteConnection, sweep_id: int) -> list[int]:
    """Return the queued runs of a sweep, oldest first."""
    return [
        row["id"]
        for row in db.rows("SELECT id FROM runs WHERE sweep_id = ? AND status = 'queued' ORDER BY id", [sweep_id])
    ]
