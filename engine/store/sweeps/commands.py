"""What people do to sweeps: launch, pause, extend, try again, end. Each command is one transaction, whatever the number
of runs.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.errors import ConfigError, Problem, WrongStatus
from engine.home import named_data
from engine.launch_options import USUAL, Terms
from engine.store.access.authorization import command
from engine.store.access.quotas import QuotaChecks
from engine.store.connection import Row, WriteConnection
from engine.store.records import BAD_ENDS, ENDED, RETRIED, RETRIES, Demand, Status
from engine.store.runs.changes import RunChanges
from engine.store.runs.rows import as_terms
from engine.store.sweeps.failures import NEWEST_OF_CELLS, queued_of
from engine.store.timestamps import now


@dataclass(frozen=True)
class NewRun:
    """One run of a sweep, before it has a number."""

    config: Mapping[str, Any]
    demand: Demand
    name: str


class SweepCommands:
    """The commands about whole sweeps."""

    def __init__(self, db: WriteConnection) -> None:
        self.db = db
        self._changes = RunChanges(db)
        self._quota_checks = QuotaChecks(db)

    @command("launch sweep")
    def add(
        self,
        experiment: str,
        grid: Mapping[str, Sequence[Any]],
        runs: Sequence[NewRun],
        *,
        owner: str,
        preset: str | None = None,
        name: str = "",
        exclusive: bool = False,
        stop_after: int | None = None,
        draw: Mapping[str, Any] | None = None,
        terms: Terms = USUAL,
        figure: str = "",
    ) -> int:
        """Queue the runs of a sweep in their order and return the sweep's id; all of them are queued, or none.

        `grid` names the fields that vary, the seed among them, with their values; the rest is as in `Sweep`. Raises
        ConfigError where there is no run, LimitReached.
        """
        if not runs:
            raise ConfigError([Problem("", "A sweep needs at least one run.")])
        with self.db.change() as connection:
            self._changes.may_prefer(terms, owner)
            self._quota_checks.require(owner, [run.demand for run in runs], terms.max_run_time_s)
            columns = "experiment, name, owner, grid, created_at, exclusive, stop_after, draw, figure"
            sql = f"INSERT INTO sweeps ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
            values = [
                experiment,
                name,
                owner,
                _text(grid),
                now(),
                exclusive,
                stop_after,
                json.dumps(draw) if draw else "",
                figure,
            ]
            sweep_id = connection.execute(sql, values).lastrowid
            assert sweep_id is not None
            for run in runs:
                self._changes.queue(
                    experiment,
                    run.config,
                    owner=owner,
                    demand=run.demand,
                    preset=preset,
                    name=run.name,
                    sweep_id=sweep_id,
                    terms=terms,
                )
        return sweep_id

    @command("extend sweep", "sweep")
    def extend(
        self,
        sweep_id: int,
        before: Mapping[str, Sequence[Any]],
        grid: Mapping[str, Sequence[Any]],
        runs: Sequence[NewRun],
        *,
        by: str,
        draw: Mapping[str, Any] | None = None,
    ) -> list[int]:
        """Give a sweep a larger grid than it had `before` and queue the runs of its new cells; return their ids.

        Raises NoSuchSweep, ConfigError where there is no new run, WrongStatus where someone else has extended it
        meanwhile.
        """
        if not runs:
            raise ConfigError(
                [
                    Problem(
                        "",
                        (
                            "There is nothing to add: every one of these runs is part of the sweep already. Give "
                            "values that are new."
                        ),
                    )
                ]
            )
        with self.db.change() as connection:
            self._quota_checks.require(by, [run.demand for run in runs])
            sweep = self._sweep_row(sweep_id)
            if sweep["grid"] != _text(before):
                raise WrongStatus(
                    f"Sweep {sweep_id} has been extended by someone else meanwhile. Look at what it has now, "
                    "and extend it again."
                )
            connection.execute(
                "UPDATE sweeps SET grid = ?, draw = ? WHERE id = ?",
                [_text(grid), json.dumps(draw) if draw else "", sweep_id],
            )
            there = self.db.rows("SELECT * FROM runs WHERE sweep_id = ? ORDER BY id", [sweep_id])
            presets, terms = {row["preset"] for row in there}, as_terms(there[0])
            self._changes.may_prefer(terms, by)
            preset = presets.pop() if len(presets) == 1 else None
            shared: dict[str, Any] = {
                "owner": by,
                "preset": preset,
                "sweep_id": sweep_id,
                "terms": terms,
                "data_folder": named_data() or there[0]["data_folder"],
            }
            return [
                self._changes.queue(sweep["experiment"], run.config, demand=run.demand, name=run.name, **shared)
                for run in runs
            ]

    @command("pause sweep", "sweep")
    def hold(self, sweep_id: int, *, by: str) -> list[int]:
        """Pause a sweep: its queued runs keep their places and are passed over, live ones go on. Returns the queued
        runs.

        Raises NoSuchSweep, WrongStatus where none of its runs is queued. Asking twice changes nothing.
        """
        with self.db.change():
            is_held, queued = bool(self._sweep_row(sweep_id)["held"]), queued_of(self.db, sweep_id)
            if not queued:
                raise WrongStatus(f"Sweep {sweep_id} can't be paused: none of its runs is queued any more.")
            return queued if is_held else self._set_held(sweep_id, queued, True, by)

    @command("go on with sweep", "sweep")
    def release(self, sweep_id: int, *, by: str) -> list[int]:
        """Let a paused sweep go on; return its queued runs. Raises NoSuchSweep, WrongStatus where it is not paused."""
        with self.db.change():
            if not self._sweep_row(sweep_id)["held"]:
                raise WrongStatus(f"Sweep {sweep_id} is not paused, so there is nothing to let go on.")
            return self._set_held(sweep_id, queued_of(self.db, sweep_id), False, by)

    @command("retry sweep", "sweep")
    def retry(self, sweep_id: int, *, by: str, statuses: Sequence[Status] = BAD_ENDS) -> dict[int, int]:
        """Queue another run of each cell whose newest run ended in one of `statuses`; return each new run by the one it
        tries again.

        Raises NoSuchSweep, WrongStatus where no cell is like that.
        """
        with self.db.change():
            self._sweep_row(sweep_id)
            again = [row for row in self.db.rows(NEWEST_OF_CELLS, [sweep_id]) if row["status"] in statuses]
            if not again:
                raise WrongStatus(
                    f"Sweep {sweep_id} has no cell to try again: the newest run of none is {' or '.join(statuses)}."
                )
            self._quota_checks.require(by, [_demand(row) for row in again])
            return {row["id"]: self._repeat(row, by) for row in again}

    @command("cancel sweep", "sweep")
    def cancel(self, sweep_id: int, *, by: str, force: bool = False) -> dict[int, Status]:
        """Ask for the end of all runs of a sweep: queued ones are cancelled at once, live ones are stopping. Returns
        each one's new status.

        Runs that have ended stay as they are and are not named. Raises NoSuchSweep, WrongStatus where all have ended.
        """
        with self.db.change():
            self._sweep_row(sweep_id)
            found = self.db.rows("SELECT id, status FROM runs WHERE sweep_id = ? ORDER BY id", [sweep_id])
            left: dict[int, Status] = {row["id"]: row["status"] for row in found if row["status"] not in ENDED}
            if not left:
                raise WrongStatus(f"Sweep {sweep_id} can't be cancelled: all its {len(found)} runs have ended already.")
            return {
                run_id: self._changes.cancel(run_id, status, by, "force" if force else "cancel")
                for run_id, status in left.items()
            }

    def _repeat(self, row: Row, by: str) -> int:
        """Queue another run of a run's cell, which begins from the start, inside a change."""
        self._changes.may_prefer(as_terms(row), by)
        new = self._changes.queue(
            row["experiment"],
            json.loads(row["config"]),
            owner=by,
            demand=_demand(row),
            preset=row["preset"],
            name=row["name"],
            parent_id=row["id"],
            sweep_id=row["sweep_id"],
            resumes=False,
            terms=as_terms(row),
        )
        self._changes.note_event(row["id"], RETRIED, by, f"as run {new}")
        self._changes.note_event(new, RETRIES, by, f"run {row['id']} from the start")
        self.db.touch(row["id"])
        return new

    def _set_held(self, sweep_id: int, queued: list[int], held: bool, by: str) -> list[int]:
        self.db.connection.execute("UPDATE sweeps SET held = ? WHERE id = ?", [held, sweep_id])
        for run_id in queued:
            self._changes.note_event(run_id, "held" if held else "released", by, f"with sweep {sweep_id}")
            self.db.touch(run_id)
        return queued

    def _sweep_row(self, sweep_id: int) -> Row:
        found = self.db.row("SELECT * FROM sweeps WHERE id = ?", [sweep_id])
        if found is None:
            raise self.db.no_such_sweep(sweep_id)
        return found


def _demand(row: Row) -> Demand:
    return Demand(row["cores"], row["gpus"], row["ranks"], row["threads_per_rank"])


def _text(grid: Mapping[str, Sequence[Any]]) -> str:
    return json.dumps({field: list(values) for field, values in grid.items()})
