"""Duels in the store: a plan as JSON, and its sweeps, one per strategy and stage."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from engine.errors import NoSuchDuel
from engine.home import named_data
from engine.launch_options import USUAL
from engine.store.access.authorization import command
from engine.store.connection import Connection, Row, WriteConnection
from engine.store.launches import Launch
from engine.store.records import RunRow, Status
from engine.store.runs.commands import RunChanges
from engine.store.runs.reader import RunReader
from engine.store.runs.rows import RUN_ROW, as_terms
from engine.store.sweeps.sweeps import SEED
from engine.store.timestamps import now

Stage = Literal["tuning", "judging"]
STAGES: tuple[Stage, ...] = ("tuning", "judging")
RATE = "learning_rate"
SWEEPS_OF = "SELECT sweep_id FROM duel_sweeps WHERE duel_id = ?"
_SAME = "id name owner created_at stage"
_FURTHEST = (
    "SELECT metrics.run_id, max(points.time_s), max(points.passes) FROM metrics"
    " JOIN points ON points.metric_id = metrics.id AND points.id = (SELECT id FROM points WHERE metric_id = "
    "metrics.id ORDER BY id DESC LIMIT 1)"
    " WHERE metrics.run_id IN (SELECT value FROM json_each(?)) AND metrics.name = 'train/loss' GROUP BY metrics.run_id"
)


@dataclass(frozen=True)
class DuelSweep:
    """One sweep of a duel: a strategy, by index, in one stage."""

    strategy: int
    stage: Stage
    sweep_id: int


@dataclass(frozen=True)
class StoredDuel:
    """A duel with the sweeps launched so far."""

    id: int
    name: str
    owner: str
    created_at: str
    plan: Mapping[str, Any]
    """The duel as JSON; parsed by `engine.duel.spec`."""
    stage: Stage
    """Last launched stage."""
    parts: tuple[DuelSweep, ...]
    statuses: Mapping[Status, int]
    """Number of its runs per status."""


class DuelReader:
    """Queries of duels."""

    def __init__(self, db: Connection) -> None:
        self.db = db
        self._runs = RunReader(db)

    def one(self, duel_id: int) -> StoredDuel:
        """Return one duel; raises NoSuchDuel."""
        with self.db.snapshot():
            if row := self.db.row("SELECT * FROM duels WHERE id = ?", [duel_id]):
                return self._with_parts([row])[0]
        raise no_such_duel(duel_id)

    def recent(self, *, limit: int = 50, stage: Stage | None = None) -> list[StoredDuel]:
        """Return duels newest first, optionally only those in stage `stage`."""
        with self.db.snapshot():
            sql = "SELECT * FROM duels WHERE ?1 IS NULL OR stage = ?1 ORDER BY id DESC LIMIT ?2"
            return self._with_parts(self.db.rows(sql, [stage, limit]))

    def runs(self, duel_id: int) -> dict[int, list[RunRow]]:
        """Return the runs of each sweep of a duel, oldest first."""
        found: dict[int, list[RunRow]] = {}
        with self.db.snapshot():
            rows = self.db.rows(f"{RUN_ROW} WHERE runs.sweep_id IN ({SWEEPS_OF}) ORDER BY runs.id", [duel_id])
            for run in self._runs.with_numbers(rows):
                found.setdefault(run.sweep_id or 0, []).append(run)
        return found

    def token(self, duel_id: int) -> int:
        """Return the highest change token of a duel's runs; 0 where it has none."""
        return self.db.number(f"SELECT max(version) AS version FROM runs WHERE sweep_id IN ({SWEEPS_OF})", [duel_id])

    def of_sweep(self, sweep_id: int) -> int | None:
        """Return the duel of a sweep, None if there is none."""
        row = self.db.row("SELECT duel_id FROM duel_sweeps WHERE sweep_id = ?", [sweep_id])
        return int(row["duel_id"]) if row else None

    def plans_of(self, run_ids: Collection[int]) -> dict[int, tuple[int, Mapping[str, Any]]]:
        """Return the duel's id and plan for those of some runs that belong to one."""
        sql = (
            "SELECT runs.id, duels.id, duels.plan FROM runs JOIN duel_sweeps USING (sweep_id) JOIN duels ON "
            "duels.id = duel_sweeps.duel_id"
            " WHERE runs.id IN (SELECT value FROM json_each(?))"
        )
        return {row[0]: (row[1], json.loads(row[2])) for row in self.db.rows(sql, [json.dumps(list(run_ids))])}

    def furthest(self, run_ids: Collection[int]) -> dict[int, tuple[float, float]]:
        """Return the extent of each run's recorded training: seconds since all ranks were ready, and passes over the
        data (0 if unknown).
        """
        return {row[0]: (row[1], row[2] or 0.0) for row in self.db.rows(_FURTHEST, [json.dumps(list(run_ids))])}

    def _with_parts(self, rows: Sequence[Row]) -> list[StoredDuel]:
        parts: dict[int, list[DuelSweep]] = {row["id"]: [] for row in rows}
        sql = (
            "SELECT * FROM duel_sweeps WHERE duel_id IN (SELECT value FROM json_each(?)) ORDER BY stage DESC, strategy"
        )
        for row in self.db.rows(sql, [json.dumps(list(parts))]):
            parts[row["duel_id"]].append(DuelSweep(row["strategy"], row["stage"], row["sweep_id"]))
        counts: dict[int, dict[Status, int]] = {row["id"]: {} for row in rows}
        sql = (
            "SELECT duel_id, status, count(*) AS n FROM runs JOIN duel_sweeps USING (sweep_id)"
            " WHERE duel_id IN (SELECT value FROM json_each(?)) GROUP BY duel_id, status"
        )
        for row in self.db.rows(sql, [json.dumps(list(parts))]):
            counts[row["duel_id"]][row["status"]] = row["n"]
        return [
            StoredDuel(
                **{name: row[name] for name in _SAME.split()},
                plan=json.loads(row["plan"]),
                parts=tuple(parts[row["id"]]),
                statuses=counts[row["id"]],
            )
            for row in rows
        ]


def no_such_duel(duel_id: int) -> NoSuchDuel:
    """Return the error for an unknown duel."""
    return NoSuchDuel(f"Duel {duel_id} doesn't exist. The Duel page and the duel command show all duels.")


# ---- Commands of duels, by people and the runner: launch one, and launch its second stage --------------------------


@dataclass(frozen=True)
class StrategyLaunch:
    """One run of a duel to launch, with the index and the name of its strategy."""

    strategy: int
    strategy_name: str
    run: Launch


class DuelCommands:
    """Commands of duels; each is one transaction."""

    def __init__(self, db: WriteConnection) -> None:
        self.db = db
        self._changes = RunChanges(db)

    @command("launch duel")
    def add(
        self, plan: Mapping[str, Any], runs: Sequence[StrategyLaunch], *, owner: str, name: str, exclusive: bool
    ) -> int:
        """Store a duel and queue its tuning runs in order; return its id. Raises LimitReached; the judged runs are
        exempt.
        """
        with self.db.change():
            self._changes.may_queue([each.run for each in runs], wanted_s=runs[0].run.terms.max_run_time_s)
            made = {"name": name, "owner": owner, "created_at": now(), "plan": json.dumps(plan), "stage": "tuning"}
            duel_id = self.db.insert("duels", made)
            self._add_stage(duel_id, "tuning", runs, exclusive, data_folder=named_data())
        return duel_id

    def judge(self, duel_id: int, runs: Sequence[StrategyLaunch], *, exclusive: bool) -> bool:
        """Queue the judged runs in order, with the owner and launch options of the tuning runs; False, and nothing
        written, if that was already done.

        Raises NoSuchDuel.
        """
        with self.db.change() as connection:
            row = self.db.row("SELECT * FROM duels WHERE id = ?", [duel_id])
            if row is None:
                raise no_such_duel(duel_id)
            if row["stage"] != "tuning":
                return False
            first = self.db.row(f"SELECT * FROM runs WHERE sweep_id IN ({SWEEPS_OF}) ORDER BY id LIMIT 1", [duel_id])
            connection.execute("UPDATE duels SET stage = 'judging' WHERE id = ?", [duel_id])
            terms = as_terms(first) if first else USUAL
            alike = [replace(each, run=replace(each.run, owner=row["owner"], terms=terms)) for each in runs]
            self._add_stage(duel_id, "judging", alike, exclusive, data_folder=first["data_folder"] if first else None)
        return True

    def _add_stage(
        self, duel_id: int, stage: Stage, runs: Sequence[StrategyLaunch], exclusive: bool, data_folder: str | None
    ) -> None:
        """Create a sweep per strategy and queue all runs in the given order, so that strategies take turns; within a
        change.
        """
        sweeps: dict[int, int] = {}
        for each in runs:
            if each.strategy not in sweeps:
                alike = [one.run for one in runs if one.strategy == each.strategy]
                sweeps[each.strategy] = self._sweep_of_duel(duel_id, stage, each, alike, exclusive)
            name = f"Duel {duel_id}, {stage}: {each.run.name}"
            run = replace(each.run, name=name, sweep_id=sweeps[each.strategy], data_folder=data_folder)
            self._changes.queue(run)

    def _sweep_of_duel(
        self, duel_id: int, stage: Stage, one: StrategyLaunch, runs: Sequence[Launch], exclusive: bool
    ) -> int:
        grid = {field: list(dict.fromkeys(run.config[field] for run in runs)) for field in (RATE, SEED)}
        sweep_id = self.db.insert(
            "sweeps",
            {
                "experiment": one.run.experiment,
                "name": f"Duel {duel_id}, {stage}: {one.strategy_name}",
                "owner": one.run.owner,
                "grid": json.dumps(grid),
                "created_at": now(),
                "exclusive": exclusive,
            },
        )
        part = {"sweep_id": sweep_id, "duel_id": duel_id, "strategy": one.strategy, "stage": stage}
        self.db.insert("duel_sweeps", part)
        return sweep_id
