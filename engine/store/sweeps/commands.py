"""Commands of sweeps: launch, pause, extend, retry, cancel. Each is one transaction, for any number of runs."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from engine.access.quotas import disturbed_above
from engine.errors import ConfigError, Problem, WrongStatus
from engine.home import named_data
from engine.launch_options import USUAL, LaunchOptions
from engine.store.access.authorization import command
from engine.store.access.quotas import QuotaChecks
from engine.store.connection import Row, WriteConnection
from engine.store.records import BAD_ENDS, ENDED, RETRIED, RETRIES, Demand, Status, is_spent
from engine.store.runs.commands import RunChanges
from engine.store.runs.rows import as_terms
from engine.store.sweeps.sweeps import SEED, Timing
from engine.store.timestamps import now

_DISTURBED = (
    "SELECT metrics.run_id FROM metrics JOIN runs ON runs.id = metrics.run_id WHERE runs.sweep_id = ? AND "
    "runs.status = 'finished' AND metrics.rank IS NULL AND metrics.name = 'perf/disturbance' AND metrics.last > ?"
)


@dataclass(frozen=True)
class NewRun:
    """One run of a sweep, without an id."""

    config: Mapping[str, Any]
    demand: Demand
    name: str


class SweepCommands:
    """Commands of whole sweeps."""

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
        terms: LaunchOptions = USUAL,
        figure: str = "",
        timing: Timing | None = None,
        equal_work: Mapping[str, Any] | None = None,
    ) -> int:
        """Queue the runs of a sweep in order and return the sweep's id; all of them are queued, or none.

        `grid` maps the varied fields, including the seed, to their values; other arguments are as in `Sweep`. Raises
        ConfigError without runs, LimitReached.
        """
        if not runs:
            raise ConfigError([Problem("", "A sweep needs at least one run.")])
        with self.db.change() as connection:
            self._changes.may_prefer(terms, owner)
            self._quota_checks.require(owner, [run.demand for run in runs], terms.max_run_time_s)
            columns = (
                "experiment, name, owner, grid, created_at, exclusive, stop_after, draw, figure, timing, equal_work"
            )
            sql = f"INSERT INTO sweeps ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
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
                json.dumps(asdict(timing)) if timing else "",
                json.dumps(equal_work) if equal_work else "",
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
        """Replace a sweep's grid `before` by a larger one and queue the runs of its new cells; return their ids.

        Raises NoSuchSweep, ConfigError without new runs, WrongStatus if another person has extended it meanwhile.
        """
        if not runs:
            raise ConfigError(
                [
                    Problem(
                        "",
                        ("Nothing to add: the sweep already contains all of these runs. Give new values."),
                    )
                ]
            )
        with self.db.change() as connection:
            self._quota_checks.require(by, [run.demand for run in runs])
            connection.execute("UPDATE sweeps SET draw = ? WHERE id = ?", [json.dumps(draw) if draw else "", sweep_id])
            return self._extend(sweep_id, before, grid, runs, by)

    def repeat(
        self,
        sweep_id: int,
        before: Mapping[str, Sequence[Any]],
        grid: Mapping[str, Sequence[Any]],
        runs: Sequence[NewRun],
    ) -> list[int]:
        """Queue more runs of a sweep for timing for its owner, as the runner does; return their ids.

        Raises NoSuchSweep, LimitReached, WrongStatus if a person has extended it meanwhile.
        """
        with self.db.change():
            owner = self._sweep_row(sweep_id)["owner"]
            self._quota_checks.require(owner, [run.demand for run in runs])
            return self._extend(sweep_id, before, grid, runs, owner)

    def _extend(
        self,
        sweep_id: int,
        before: Mapping[str, Sequence[Any]],
        grid: Mapping[str, Sequence[Any]],
        runs: Sequence[NewRun],
        owner: str,
    ) -> list[int]:
        """Replace the grid and queue runs like the others of the sweep, within a change."""
        sweep = self._sweep_row(sweep_id)
        if sweep["grid"] != _text(before):
            raise WrongStatus(
                f"Sweep {sweep_id} was extended by another person meanwhile. Check its runs and try again."
            )
        self.db.connection.execute("UPDATE sweeps SET grid = ? WHERE id = ?", [_text(grid), sweep_id])
        there = self.db.rows("SELECT * FROM runs WHERE sweep_id = ? ORDER BY id", [sweep_id])
        presets, terms = {row["preset"] for row in there}, as_terms(there[0])
        self._changes.may_prefer(terms, owner)
        preset = presets.pop() if len(presets) == 1 else None
        shared: dict[str, Any] = {
            "owner": owner,
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
        """Pause a sweep: its queued runs keep their places and are skipped, live ones continue. Returns the queued
        runs.

        Raises NoSuchSweep, WrongStatus without queued runs. Repeating it changes nothing.
        """
        with self.db.change():
            is_held, queued = bool(self._sweep_row(sweep_id)["held"]), queued_of(self.db, sweep_id)
            if not queued:
                raise WrongStatus(f"Sweep {sweep_id} can't be paused: it has no queued runs.")
            return queued if is_held else self._set_held(sweep_id, queued, True, by)

    @command("go on with sweep", "sweep")
    def release(self, sweep_id: int, *, by: str) -> list[int]:
        """Resume a paused sweep; return its queued runs. Raises NoSuchSweep, WrongStatus if it is not paused."""
        with self.db.change():
            if not self._sweep_row(sweep_id)["held"]:
                raise WrongStatus(f"Sweep {sweep_id} is not paused.")
            return self._set_held(sweep_id, queued_of(self.db, sweep_id), False, by)

    @command("retry sweep", "sweep")
    def retry(self, sweep_id: int, *, by: str, statuses: Sequence[Status] = BAD_ENDS) -> dict[int, int]:
        """Queue another run of each cell whose newest run ended in one of `statuses` before it spent the budget of a
        duel; return each new run by the one it retries.

        Raises NoSuchSweep, WrongStatus without such a cell.
        """
        with self.db.change():
            self._sweep_row(sweep_id)
            again = [
                row
                for row in self.db.rows(NEWEST_OF_CELLS, [sweep_id])
                if row["status"] in statuses and not is_spent(row["status"], row["cause"])
            ]
            if not again:
                raise WrongStatus(
                    f"Sweep {sweep_id} has no cell to retry: no cell's newest run is {' or '.join(statuses)}."
                )
            self._quota_checks.require(by, [_demand(row) for row in again])
            return {row["id"]: self._repeat(row, by) for row in again}

    @command("retry sweep", "sweep")
    def remeasure(self, sweep_id: int, *, by: str) -> dict[int, int]:
        """Queue another run of each cell whose newest run was disturbed, alone on the machine; return each new run by
        the one that it repeats. The sweep becomes exclusive.

        Raises NoSuchSweep, WrongStatus without such a cell.
        """
        with self.db.change() as connection:
            seeds = json.loads(self._sweep_row(sweep_id)["grid"]).get(SEED, [])  # which a warm-up's is not among
            above = 100 * disturbed_above(self.db.home)
            disturbed = {row["run_id"] for row in self.db.rows(_DISTURBED, [sweep_id, above])}
            again = [
                row
                for row in self.db.rows(NEWEST_OF_CELLS, [sweep_id])
                if row["id"] in disturbed and json.loads(row["config"]).get(SEED) in seeds
            ]
            if not again:
                raise WrongStatus(f"Sweep {sweep_id} has no run to measure again: no cell's newest run was disturbed.")
            self._quota_checks.require(by, [_demand(row) for row in again])
            connection.execute("UPDATE sweeps SET exclusive = 1 WHERE id = ?", [sweep_id])
            return {row["id"]: self._repeat(row, by) for row in again}

    @command("cancel sweep", "sweep")
    def cancel(self, sweep_id: int, *, by: str, force: bool = False) -> dict[int, Status]:
        """Request the end of all runs of a sweep: queued ones are cancelled at once, live ones are stopping. Returns
        each one's new status.

        Ended runs are unchanged and omitted. Raises NoSuchSweep, WrongStatus if all have ended.
        """
        with self.db.change():
            self._sweep_row(sweep_id)
            found = self.db.rows("SELECT id, status FROM runs WHERE sweep_id = ? ORDER BY id", [sweep_id])
            left: dict[int, Status] = {row["id"]: row["status"] for row in found if row["status"] not in ENDED}
            if not left:
                raise WrongStatus(f"Sweep {sweep_id} can't be cancelled: all {len(found)} runs have ended.")
            return {
                run_id: self._changes.cancel(run_id, status, by, "force" if force else "cancel")
                for run_id, status in left.items()
            }

    def _repeat(self, row: Row, by: str) -> int:
        """Queue another run of a run's cell from the start, within a change."""
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


# ---- The failure limit of sweeps -----------------------------------------------------------------------------------

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
