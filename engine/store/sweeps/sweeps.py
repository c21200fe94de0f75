"""Queries of sweeps: list, progress and runs. Never reads metric points."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Unpack, get_args

from engine.filter import SortOrder
from engine.store.connection import Connection, Row
from engine.store.launches import Draw, Timing
from engine.store.records import ALIVE, BUDGET_OF, ENDED, RunRow, Status
from engine.store.runs.filter_sql import behind, ordered, sorted_by
from engine.store.runs.reader import RunConditions, RunReader, common_tags, where_of
from engine.store.runs.rows import RUN_ROW
from engine.store.scripts import as_command, command_of

if TYPE_CHECKING:
    from engine.script.command import Command

SEED = "seed"
REPEAT = "repeat"
"""What pages call the seed of a command that has none."""
_SWEEP = f"SELECT sweeps.*, {command_of('sweeps')} FROM sweeps"


@dataclass(frozen=True)
class Sweep:
    """Runs of one experiment over values of some config fields, times seeds."""

    id: int
    experiment: str
    name: str
    owner: str
    grid: Mapping[str, tuple[Any, ...]]
    """Values of each varied field, the seed last."""
    created_at: str
    statuses: Mapping[Status, int]
    """Number of its runs per status; statuses without runs are omitted."""
    held: bool = False
    """Whether it was paused; its queued runs, if any, are held."""
    exclusive: bool = False
    """Whether each of its runs runs alone on the machine."""
    stop_after: int | None = None
    """Number of failed cells after which the queued runs are cancelled."""
    draw: Draw | None = None
    """Of a random search; None for a grid."""
    figure: str = ""
    """Published figure that it reproduces, with its size, such as `hogwild/full`; empty for none."""
    timing: Timing | None = None
    """For a sweep for timing, when it stops repeating; its first run is a warm-up, whose seed precedes the others."""
    equal_work: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the config whose total work each of its runs does: its length, and its values of the varied fields;
    empty where the length is the same in all runs.
    """
    is_imported: bool = False
    """Whether it was imported from another store."""
    command: "Command | None" = None
    """The command of the lab's own script that its runs run; None for an experiment of Parallab."""

    @property
    def fields(self) -> tuple[str, ...]:
        """The varied fields, without the seed."""
        return tuple(name for name in self.grid if name != SEED)

    @property
    def across(self) -> tuple[str, ...]:
        """The fields that its charts and tables are drawn across: the varied ones, or the seed of repeats alone."""
        return self.fields or (SEED,)

    @property
    def repeats(self) -> bool:
        """Whether its seeds only number repeats of its command."""
        return self.command is not None and self.command.numbers_repeats

    def shown(self, name: str) -> str:
        """Return the name by which pages show one of its fields."""
        return REPEAT if name == SEED and self.repeats else name

    @property
    def seeds(self) -> tuple[int, ...]:
        return self.grid.get(SEED, ())

    @property
    def total(self) -> int:
        """Number of its runs."""
        return sum(self.statuses.values())

    @property
    def ended(self) -> int:
        """Number of ended runs."""
        return sum(count for status, count in self.statuses.items() if status in ENDED)

    @property
    def paused(self) -> bool:
        """Whether its runs wait until it is resumed."""
        return self.held and "queued" in self.statuses

    @property
    def active(self) -> bool:
        """Whether the sweep can still change without a command."""
        return self.ended < self.total


@dataclass(frozen=True)
class RankNumber:
    """Maximum value of one metric on one rank of a finished run."""

    run_id: int
    role: str
    value: float


class SweepReader:
    """Queries of the sweep page."""

    def __init__(self, db: Connection) -> None:
        self.db = db
        self._runs = RunReader(db)

    def one(self, sweep_id: int) -> Sweep:
        """Return one sweep; raises NoSuchSweep."""
        with self.db.snapshot():
            row = self.db.row(f"{_SWEEP} WHERE id = ?", [sweep_id])
            if row is None:
                raise self.db.no_such_sweep(sweep_id)
            return self._with_statuses([row])[0]

    def some(self, sweep_ids: Sequence[int]) -> list[Sweep]:
        """Return the existing sweeps of these ids."""
        with self.db.snapshot():
            sql = f"{_SWEEP} WHERE id IN (SELECT value FROM json_each(?))"
            return self._with_statuses(self.db.rows(sql, [json.dumps(list(sweep_ids))]))

    def recent(
        self, *, order: SortOrder | None = None, limit: int = 50, offset: int = 0, before: int | None = None
    ) -> list[Sweep]:
        """Return sweeps newest first, or in an order of runs, in which each sweep has the place of its first run;
        optionally only those after sweep `before`. Raises NoSuchSweep for one that is gone.
        """
        with self.db.snapshot():
            if order is None:
                sql = f"{_SWEEP} WHERE ?1 IS NULL OR id < ?1 ORDER BY id DESC LIMIT ?2 OFFSET ?3"
                return self._with_statuses(self.db.rows(sql, [before, limit, offset]))
            value, bound = sorted_by(order.field)
            first = "max" if order.descending else "min"
            place = f"(SELECT {first}({value}) FROM runs WHERE runs.sweep_id = sweeps.id)", bound
            where, given = "true", list[Any]()
            if before is not None:
                if not self.db.exists("SELECT 1 FROM sweeps WHERE id = ?", [before]):
                    raise self.db.no_such_sweep(before)
                where, given = behind(place, order.descending, "sweeps", before)
            by, bound = ordered(place, order.descending, "sweeps")
            sql = f"{_SWEEP} WHERE {where} ORDER BY {by} LIMIT ? OFFSET ?"
            return self._with_statuses(self.db.rows(sql, [*given, *bound, limit, offset]))

    def timed(self, *, limit: int = 50) -> list[Sweep]:
        """Return the newest sweeps for timing of this store."""
        with self.db.snapshot():
            sql = f"{_SWEEP} WHERE timing <> '' AND fingerprint = '' ORDER BY id DESC LIMIT ?"
            return self._with_statuses(self.db.rows(sql, [limit]))

    def of_figures(self, figures: Sequence[str]) -> list[Sweep]:
        """Return the sweeps that reproduce one of these published figures, newest first."""
        with self.db.snapshot():
            sql = f"{_SWEEP} WHERE figure <> '' AND figure IN (SELECT value FROM json_each(?))"
            return self._with_statuses(self.db.rows(f"{sql} ORDER BY id DESC", [json.dumps(list(figures))]))

    def count(self) -> int:
        """Return the number of sweeps."""
        return self.db.number("SELECT count(*) AS n FROM sweeps")

    def runs(self, sweep_id: int) -> list[RunRow]:
        """Return the runs of a sweep in queue order."""
        with self.db.snapshot():
            sql = f"{RUN_ROW} WHERE runs.sweep_id = ? ORDER BY runs.id"
            return self._runs.with_numbers(self.db.rows(sql, [sweep_id]))

    def token(self, sweep_id: int) -> int:
        """Return the highest change token of a sweep's runs; 0 where it has none."""
        return self.db.number("SELECT max(version) AS version FROM runs WHERE sweep_id = ?", [sweep_id])

    def rank_numbers(self, sweep_id: int, metric: str) -> list[RankNumber]:
        """Return the maximum value of a metric on each rank that recorded it, over the sweep's finished runs."""
        sql = (
            "SELECT runs.id, ranks.role, metrics.high FROM runs JOIN metrics ON metrics.run_id = runs.id"
            " JOIN ranks ON ranks.run_id = runs.id AND ranks.rank = metrics.rank"
            " WHERE runs.sweep_id = ? AND runs.status = 'finished' AND metrics.name = ? AND metrics.high IS "
            "NOT NULL ORDER BY runs.id, ranks.rank"
        )
        return self.db.records(RankNumber, sql, [sweep_id, metric])

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
        command=as_command(row),
        draw=Draw(**json.loads(row["draw"])) if row["draw"] else None,
        timing=Timing(**json.loads(row["timing"])) if row["timing"] else None,
        equal_work=json.loads(row["equal_work"]) if row["equal_work"] else {},
    )


# ---- Runs folded by the sweep or duel that they belong to: the entries of the table of runs ------------------------

_LIVE = ", ".join(f"'{status}'" for status in ALIVE)
_FOLDS = f"""
WITH picked AS (
    SELECT runs.id, runs.status, runs.cause, runs.sweep_id, duel_sweeps.duel_id FROM runs
    LEFT JOIN duel_sweeps ON duel_sweeps.sweep_id = runs.sweep_id {{where}})
SELECT CASE WHEN duel_id IS NOT NULL THEN 'duel' WHEN sweep_id IS NOT NULL THEN 'sweep' ELSE 'run' END AS kind,
    coalesce(duel_id, sweep_id, id) AS number, json_group_array(id) AS members, json_group_array(status) AS statuses,
    sum(status = 'cancelled' AND cause LIKE 'Cancelled by {BUDGET_OF} %') AS reached
FROM picked GROUP BY kind, number
ORDER BY max(CASE WHEN status IN ({_LIVE}) THEN 2 ELSE status = 'queued' END) DESC, max(id) DESC LIMIT ? OFFSET ?
"""
"""Entries with running runs first, then those with queued ones, then the others; within each, the newest first."""


@dataclass(frozen=True)
class RunFold:
    """One entry: a single run, or all matching runs of a sweep or duel."""

    kind: Literal["run", "sweep", "duel"]
    id: int
    """The number of the run, sweep or duel."""
    run_ids: tuple[int, ...]
    """Its matching runs, newest first."""
    statuses: Mapping[Status, int]
    """Number of its matching runs per status."""
    reached_budget: int = 0
    """Number of cancelled ones that had spent the budget of their duel."""
    tags: tuple[str, ...] = ()
    """Tags that all its matching runs have."""


class FoldReader:
    """Queries of the table of runs, with one row per run, sweep or duel."""

    def __init__(self, db: Connection) -> None:
        self.db = db

    def find(self, *, limit: int = 500, offset: int = 0, **asked: Unpack[RunConditions]) -> list[RunFold]:
        """Return the entries of all matching runs, those with running runs first, then the newest."""
        where, values = where_of(**asked)
        rows = self.db.rows(_FOLDS.format(where=where), [*values, limit, offset])
        members = [tuple(sorted(json.loads(row["members"]), reverse=True)) for row in rows]
        return [
            RunFold(row["kind"], row["number"], runs, Counter(json.loads(row["statuses"])), row["reached"], tags)
            for row, runs, tags in zip(rows, members, common_tags(self.db, members), strict=True)
        ]

    def count(self, **asked: Unpack[RunConditions]) -> int:
        """Return the number of entries of the matching runs."""
        where, values = where_of(**asked)
        sql = (
            "SELECT count(DISTINCT CASE WHEN duel_id IS NOT NULL THEN 'd' || duel_id WHEN runs.sweep_id IS NOT NULL "
            "THEN 's' || runs.sweep_id ELSE runs.id END) AS n FROM runs "
            f"LEFT JOIN duel_sweeps ON duel_sweeps.sweep_id = runs.sweep_id {where}"
        )
        return self.db.number(sql, values)
