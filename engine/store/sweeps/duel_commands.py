"""Commands of duels, by people and the runner: launch one, and launch its second stage."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.home import named_data
from engine.launch_options import USUAL, LaunchOptions
from engine.store.access.authorization import command
from engine.store.access.quotas import QuotaChecks
from engine.store.connection import WriteConnection
from engine.store.runs.changes import RunChanges
from engine.store.runs.rows import as_terms
from engine.store.sweeps.commands import NewRun
from engine.store.sweeps.duels import RATE, SWEEPS_OF, Stage, no_such_duel
from engine.store.sweeps.sweeps import SEED
from engine.store.timestamps import now


@dataclass(frozen=True)
class NewDuelRun:
    """One run of a duel without an id; its strategy by name and index."""

    strategy: int
    strategy_name: str
    experiment: str
    run: NewRun


class DuelCommands:
    """Commands of duels; each is one transaction."""

    def __init__(self, db: WriteConnection) -> None:
        self.db = db
        self._changes = RunChanges(db)
        self._quota_checks = QuotaChecks(db)

    @command("launch duel")
    def add(
        self,
        plan: Mapping[str, Any],
        runs: Sequence[NewDuelRun],
        *,
        owner: str,
        name: str,
        exclusive: bool,
        terms: LaunchOptions,
    ) -> int:
        """Store a duel and queue its tuning runs in order; return its id. Raises LimitReached; the judged runs are
        exempt.
        """
        with self.db.change() as connection:
            self._changes.may_prefer(terms, owner)
            self._quota_checks.require(owner, [each.run.demand for each in runs], terms.max_run_time_s)
            sql = "INSERT INTO duels (name, owner, created_at, plan, stage) VALUES (?, ?, ?, ?, 'tuning')"
            duel_id = connection.execute(sql, [name, owner, now(), json.dumps(plan)]).lastrowid
            assert duel_id is not None
            self._add_stage(duel_id, "tuning", runs, owner, exclusive, terms, named_data())
        return duel_id

    def judge(self, duel_id: int, runs: Sequence[NewDuelRun], *, exclusive: bool) -> bool:
        """Queue the judged runs in order, with the launch options of the tuning runs; False, and nothing written, if
        that was already done.

        Raises NoSuchDuel.
        """
        with self.db.change() as connection:
            row = self.db.row("SELECT * FROM duels WHERE id = ?", [duel_id])
            if row is None:
                raise no_such_duel(duel_id)
            if row["stage"] != "tuning":
                return False
            first = self.db.row(f"SELECT * FROM runs WHERE sweep_id IN ({SWEEPS_OF}) ORDER BY id LIMIT 1", [duel_id])
            terms = as_terms(first) if first else USUAL
            connection.execute("UPDATE duels SET stage = 'judging' WHERE id = ?", [duel_id])
            self._add_stage(
                duel_id, "judging", runs, row["owner"], exclusive, terms, first["data_folder"] if first else None
            )
        return True

    def _add_stage(
        self,
        duel_id: int,
        stage: Stage,
        runs: Sequence[NewDuelRun],
        owner: str,
        exclusive: bool,
        terms: LaunchOptions,
        data_folder: str | None,
    ) -> None:
        """Create a sweep per strategy and queue all runs in the given order, so that strategies take turns; within a
        change.
        """
        sweeps: dict[int, int] = {}
        for each in runs:
            if each.strategy not in sweeps:
                sweeps[each.strategy] = self._sweep_of_duel(
                    duel_id, stage, each, [one.run for one in runs if one.strategy == each.strategy], owner, exclusive
                )
            name = f"Duel {duel_id}, {stage}: {each.run.name}"
            sweep_id = sweeps[each.strategy]
            shared: dict[str, Any] = {
                "owner": owner,
                "preset": None,
                "sweep_id": sweep_id,
                "terms": terms,
                "data_folder": data_folder,
            }
            self._changes.queue(each.experiment, each.run.config, demand=each.run.demand, name=name, **shared)

    def _sweep_of_duel(
        self, duel_id: int, stage: Stage, one: NewDuelRun, runs: Sequence[NewRun], owner: str, exclusive: bool
    ) -> int:
        grid = {field: list(dict.fromkeys(run.config[field] for run in runs)) for field in (RATE, SEED)}
        sql = "INSERT INTO sweeps (experiment, name, owner, grid, created_at, exclusive) VALUES (?, ?, ?, ?, ?, ?)"
        values = [
            one.experiment,
            f"Duel {duel_id}, {stage}: {one.strategy_name}",
            owner,
            json.dumps(grid),
            now(),
            exclusive,
        ]
        sweep_id = self.db.connection.execute(sql, values).lastrowid
        assert sweep_id is not None
        sql = "INSERT INTO duel_sweeps (sweep_id, duel_id, strategy, stage) VALUES (?, ?, ?, ?)"
        self.db.connection.execute(sql, [sweep_id, duel_id, one.strategy, stage])
        return sweep_id
