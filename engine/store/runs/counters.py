"""Counts of the store for frequent queries: only data newer than the last result is read."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from engine.store.access.sign_ins import IDLE_S
from engine.store.connection import Connection, Row
from engine.store.records import ALIVE, Status
from engine.store.runs.rows import NOT_HELD
from engine.store.timestamps import in_seconds, now, seconds_since

_ALIVE = ", ".join(f"'{status}'" for status in ALIVE)
_RUNS = "SELECT id, experiment, status, last_point_id AS points, version FROM runs WHERE version >= ?"
_COMMANDS = (
    "SELECT command, refused <> '' AS refused, count(*) AS n, max(id) AS newest FROM audit WHERE id > ? GROUP BY 1, 2"
)
_HELD = f"SELECT count(*) FROM runs WHERE status = 'queued' AND NOT ({NOT_HELD})"
_OLDEST = f"SELECT created_at FROM runs WHERE status = 'queued' AND {NOT_HELD} ORDER BY id LIMIT 1"
_SLOTS = (
    f"SELECT coalesce(sum(cores), 0), coalesce(sum(json_array_length(gpu_ids)), 0) FROM runs WHERE status IN ({_ALIVE})"
)
_SIGNED_IN = (
    "SELECT count(*) FROM sign_ins JOIN people ON people.id = person_id"
    " WHERE ended_at IS NULL AND people.disabled_at IS NULL AND expires_at > ? AND seen_at >= ?"
)


@dataclass(frozen=True)
class CountedRun:
    """One run, as counted."""

    experiment: str
    status: Status
    points: int


@dataclass(frozen=True)
class StoreCounts:
    """Counts of one store at one time; increasing counts continue from the previous result."""

    runs: Mapping[int, CountedRun] = field(default_factory=dict)
    by_status: Mapping[tuple[str, Status], int] = field(default_factory=dict)
    """Number of runs per experiment and status."""
    version: int = 0
    """Change token up to which runs were read."""
    points: int = 0
    """Points written; points of runs deleted since the first result still count."""
    commands: Mapping[tuple[str, bool], int] = field(default_factory=dict)
    """Number of commands, by name and whether they were refused."""
    newest_command: int = 0
    held: int = 0
    """Queued runs on hold."""
    oldest_wait_s: float = 0.0
    """Waiting time of the oldest run that is not on hold."""
    cores_held: int = 0
    gpus_held: int = 0
    signed_in: int = 0
    """Number of active sessions."""


class CounterReader:
    """Query of the counts."""

    def __init__(self, db: Connection) -> None:
        self.db = db

    def tally(self, before: StoreCounts | None = None) -> StoreCounts:
        """Return the current counts; `before`, an earlier result for the same store, avoids reading known data."""
        before = before or StoreCounts()
        with self.db.snapshot():
            runs, changed = self._runs_since(before)
            commands = self.db.rows(_COMMANDS, [before.newest_command])
            cores, gpus = self.db.rows(_SLOTS)[0]
            oldest = self.db.row(_OLDEST)
            return StoreCounts(
                runs=runs,
                by_status=_by_status(before, runs, changed),
                version=max([row["version"] for row in changed], default=before.version),
                points=before.points + sum(max(0, row["points"] - _points_of(before, row["id"])) for row in changed),
                commands=Counter(before.commands)
                + Counter({(row["command"], bool(row["refused"])): row["n"] for row in commands}),
                newest_command=max([before.newest_command, *(row["newest"] for row in commands)]),
                held=self._number(_HELD),
                oldest_wait_s=seconds_since(oldest["created_at"]) if oldest else 0.0,
                cores_held=cores,
                gpus_held=gpus,
                signed_in=self._number(_SIGNED_IN, [now(), in_seconds(-IDLE_S)]),
            )

    def _runs_since(self, before: StoreCounts) -> tuple[Mapping[int, CountedRun], Sequence[Row]]:
        """Return all runs, and the rows that were read: changed ones, or all if some were deleted.

        A token is reused if the run with the newest one was deleted; therefore the newest known one is queried again,
        and a different count reveals it.
        """
        changed = self.db.rows(_RUNS, [before.version])
        runs = {**before.runs, **_counted(changed)}
        if len(runs) != self._number("SELECT count(*) FROM runs"):
            changed = self.db.rows(_RUNS, [-1])
            runs = _counted(changed)
        return runs, changed

    def _number(self, sql: str, values: Sequence[object] = ()) -> int:
        return self.db.number(sql, values)


def _counted(rows: Sequence[Row]) -> dict[int, CountedRun]:
    return {row["id"]: CountedRun(row["experiment"], row["status"], row["points"]) for row in rows}


def _by_status(
    before: StoreCounts, runs: Mapping[int, CountedRun], changed: Sequence[Row]
) -> Mapping[tuple[str, Status], int]:
    """Return the number of runs per experiment and status: updated for few changes, recomputed for many."""
    if len(changed) == len(runs):
        return Counter((run.experiment, run.status) for run in runs.values())
    counts = Counter(before.by_status)
    for row in changed:
        if (known := before.runs.get(row["id"])) is not None:
            counts[known.experiment, known.status] -= 1
        counts[row["experiment"], row["status"]] += 1
    return +counts


def _points_of(before: StoreCounts, run_id: int) -> int:
    known = before.runs.get(run_id)
    return known.points if known else 0
