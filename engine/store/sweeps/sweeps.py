"""What is read of sweeps: which there are, how far each is, and its runs. Never reads a metric point."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from engine.store.connection import Connection, Row
from engine.store.records import ENDED, RunRow, Status
from engine.store.runs.reader import RunReader
from engine.store.runs.rows import RUN_ROW

SEED = "seed"


@dataclass(frozen=True)
class Sweep:
    """Runs of one experiment over values of some config fields, times seeds."""

    id: int
    experiment: str
    name: str
    owner: str
    grid: Mapping[str, tuple[Any, ...]]
    """The values of each field that varies, the seed last."""
    created_at: str
    statuses: Mapping[Status, int]
    """How many of its runs have each status; statuses of none are left out."""
    held: bool = False
    """Whether it was paused; its queued runs, if any are left, stay where they are."""
    exclusive: bool = False
    """Whether each of its runs has the machine to itself."""
    stop_after: int | None = None
    """So many cells may end badly, then its queued runs are cancelled."""
    draw: Mapping[str, Any] | None = None
    """`count`, `seed` and `over` (a range as text for each field) of a random draw; None for a grid."""
    figure: str = ""
    """The published figure that it was launched as, with its size, such as `hogwild/full`; empty for none."""

    is_imported: bool = False
    """Whether it came from another store."""

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields that vary, without the seed."""
        return tuple(name for name in self.grid if name != SEED)

    @property
    def seeds(self) -> tuple[int, ...]:
        return self.grid.get(SEED, ())

    @property
    def total(self) -> int:
        """How many runs it has."""
        return sum(self.statuses.values())

    @property
    def ended(self) -> int:
        """How many of them have ended, well or not."""
        return sum(count for status, count in self.statuses.items() if status in ENDED)

    @property
    def paused(self) -> bool:
        """Whether runs of it wait until it is let go on."""
        return self.held and "queued" in self.statuses

    @property
    def active(self) -> bool:
        """Whether anything about it can still change by itself."""
        return self.ended < self.total


@dataclass(frozen=True)
class RankNumber:
    """The highest value of one metric on one rank of a finished run."""

    run_id: int
    role: str
    value: float


class SweepReader:
    """The questions of the sweep page."""

    def __init__(self, db: Connection) -> None:
        self.db = db
        self._runs = RunReader(db)

    def one(self, sweep_id: int) -> Sweep:
        """Return one sweep; raises NoSuchSweep."""
        with self.db.snapshot():
            row = self.db.row("SELECT * FROM sweeps WHERE id = ?", [sweep_id])
            if row is None:
                raise self.db.no_such_sweep(sweep_id)
            return self._with_statuses([row])[0]

    def recent(self, *, limit: int = 50, offset: int = 0, before: int | None = None) -> list[Sweep]:
        """Return sweeps newest first, those older than sweep `before` where asked."""
        with self.db.snapshot():
            sql = "SELECT * FROM sweeps WHERE ?1 IS NULL OR id < ?1 ORDER BY id DESC LIMIT ?2 OFFSET ?3"
            return self._with_statuses(self.db.rows(sql, [before, limit, offset]))

    def of_figures(self, figures: Sequence[str]) -> list[Sweep]:
        """Return the sweeps that were launched as one of these published figures, newest first."""
        with self.db.snapshot():
            sql = (
                "SELECT * FROM sweeps WHERE figure <> '' AND figure IN (SELECT value FROM json_each(?)) ORDER BY "
                "id DESC"
            )
            return self._with_statuses(self.db.rows(sql, [json.dumps(list(figures))]))

    def count(self) -> int:
        """Return how many sweeps there are."""
        row = self.db.row("SELECT count(*) AS n FROM sweeps")
        return int(row["n"]) if row else 0

    def runs(self, sweep_id: int) -> list[RunRow]:
        """Return the runs of a sweep in the order of its queue."""
        with self.db.snapshot():
            return self._runs.with_numbers(
                self.db.rows(f"{RUN_ROW} WHERE runs.sweep_id = ? ORDER BY runs.id", [sweep_id])
            )

    def token(self, sweep_id: int) -> int:
        """Return the highest change token of a sweep's runs; 0 where it has none."""
        row = self.db.row("SELECT max(version) AS version FROM runs WHERE sweep_id = ?", [sweep_id])
        return int(row["version"] or 0) if row else 0

    def rank_numbers(self, sweep_id: int, metric: str) -> list[RankNumber]:
        """Return the highest value of a metric on each rank that recorded it, over the sweep's finished runs."""
        sql = (
            "SELECT runs.id, ranks.role, metrics.high FROM runs JOIN metrics ON metrics.run_id = runs.id"
            " JOIN ranks ON ranks.run_id = runs.id AND ranks.rank = metrics.rank"
            " WHERE runs.sweep_id = ? AND runs.status = 'finished' AND metrics.name = ? AND metrics.high IS "
            "NOT NULL ORDER BY runs.id, ranks.rank"
        )
        return [RankNumber(*row) for row in self.db.rows(sql, [sweep_id, metric])]

    def _with_statuses(self, rows: Sequence[Row]) -> list[Sweep]:
        counts: dict[int, dict[Status, int]] = {row["id"]: {} for row in rows}
        sql = (
            "SELECT sweep_id, status, count(*) AS n FROM runs WHERE sweep_id IN (SELECT value FROM json_each(?)) "
            "GROUP BY sweep_id, status"
        )
        for row in self.db.rows(sql, [json.dumps(list(counts))]):
            counts[row["sweep_id"]][row["status"]] = row["n"]
        return [_as_sweep(row, counts[row["id"]]) for row in rows]


def _as_sweep(row: Row, counts: Mapping[Status, int]) -> Sweep:
    same = "id experiment name owner created_at stop_after figure"
    grid = {field: tuple(values) for field, values in json.loads(row["grid"]).items()}
    ordered: dict[Status, int] = {status: counts[status] for status in get_args(Status) if status in counts}
    return Sweep(
        **{name: row[name] for name in same.split()},
        grid=grid,
        statuses=ordered,
        held=bool(row["held"]),
        exclusive=bool(row["exclusive"]),
        is_imported=bool(row["fingerprint"]),
        draw=json.loads(row["draw"]) if row["draw"] else None,
    )
