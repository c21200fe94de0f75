"""Commands of sweeps: launch, pause, extend, retry, cancel. Each is one transaction, for any number of runs."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from engine.access.quotas import disturbed_above
from engine.errors import ConfigError, WrongStatus
from engine.home import named_data
from engine.store.access.authorization import command
from engine.store.connection import Row, WriteConnection
from engine.store.launches import Draw, Launch, LaunchKey, SweepLaunch, Timing
from engine.store.records import BAD_ENDS, ENDED, RETRIED, RETRIES, Run, Status, is_spent
from engine.store.runs.commands import RunChanges
from engine.store.runs.rows import RUN, as_run
from engine.store.scripts import keep_command
from engine.store.sweeps.sweeps import SEED
from engine.store.timestamps import now

NEWEST_OF_CELLS = "SELECT max(id) FROM runs WHERE sweep_id = ? GROUP BY config"
"""The newest run of each cell: runs of a cell have identical configs."""
_DISTURBED = (
    "SELECT metrics.run_id FROM metrics JOIN runs ON runs.id = metrics.run_id WHERE runs.sweep_id = ? AND "
    "runs.status = 'finished' AND metrics.rank IS NULL AND metrics.name = 'perf/disturbance' AND metrics.last > ?"
)


class SweepCommands:
    """Commands of whole sweeps."""

    def __init__(self, db: WriteConnection) -> None:
        self.db = db
        self._changes = RunChanges(db)

    @command("launch sweep")
    def add(
        self,
        sweep: SweepLaunch,
        runs: Sequence[Launch],
        work: Mapping[str, Any] | None = None,
        once: LaunchKey | None = None,
    ) -> int:
        """Queue the runs of a sweep in order and return the sweep's id; all of them are queued, or none.

        Of each run the settings, the demand and the name count; the rest is the sweep's. `work` is the sweep's
        `equal_work`. A key that was used before launches nothing: its sweep is returned. Raises ConfigError without
        runs and for a key of another launch, LimitReached.
        """
        if not runs:
            raise ConfigError.of("", "A sweep needs at least one run.")
        shared = sweep.shared
        with self.db.change():
            if once and (there := self._changes.launched_under(once, shared.owner)) is not None:
                return self.db.number("SELECT sweep_id FROM runs WHERE id = ?", [there])
            self._changes.may_queue(_alike(shared, runs), wanted_s=shared.terms.max_run_time_s)
            sweep_id = self.db.insert(
                "sweeps",
                {
                    "experiment": shared.experiment,
                    "name": shared.name,
                    "owner": shared.owner,
                    "grid": _text(sweep.grid),
                    "created_at": now(),
                    "exclusive": sweep.is_exclusive,
                    "stop_after": sweep.stop_after,
                    "figure": sweep.figure,
                    "draw": _json(sweep.draw),
                    "timing": _json(sweep.timing),
                    "equal_work": json.dumps(work) if work else "",
                    "command_id": keep_command(self.db, shared.command, shared.experiment),
                },
            )
            queued = [self._changes.queue(run) for run in _alike(replace(shared, sweep_id=sweep_id), runs)]
            if once:
                self._changes.keep_key(once, shared.owner, queued[0])
        return sweep_id

    @command("extend sweep", "sweep")
    def extend(
        self,
        sweep_id: int,
        before: Mapping[str, Sequence[Any]],
        grid: Mapping[str, Sequence[Any]],
        runs: Sequence[Launch],
        *,
        by: str,
        draw: Draw | None = None,
    ) -> list[int]:
        """Replace a sweep's grid `before` by a larger one and queue the runs of its new cells; return their ids.

        Raises NoSuchSweep, ConfigError without new runs, WrongStatus if another person has extended it meanwhile.
        """
        if not runs:
            raise ConfigError.of("", "Nothing to add: the sweep already contains all of these runs. Give new values.")
        with self.db.change() as connection:
            connection.execute("UPDATE sweeps SET draw = ? WHERE id = ?", [_json(draw), sweep_id])
            return self._extend(self._sweep_row(sweep_id), before, grid, runs, by)

    def repeat(
        self,
        sweep_id: int,
        before: Mapping[str, Sequence[Any]],
        grid: Mapping[str, Sequence[Any]],
        runs: Sequence[Launch],
    ) -> list[int]:
        """Queue more runs of a sweep for timing for its owner, as the runner does; return their ids.

        Raises NoSuchSweep, LimitReached, WrongStatus if a person has extended it meanwhile.
        """
        with self.db.change():
            sweep = self._sweep_row(sweep_id)
            return self._extend(sweep, before, grid, runs, sweep["owner"])

    def _extend(
        self,
        sweep: Row,
        before: Mapping[str, Sequence[Any]],
        grid: Mapping[str, Sequence[Any]],
        runs: Sequence[Launch],
        owner: str,
    ) -> list[int]:
        """Replace the grid and queue runs like the others of the sweep, within a change."""
        if sweep["grid"] != _text(before):
            raise WrongStatus(
                f"Sweep {sweep['id']} was extended by another person meanwhile. Check its runs and try again."
            )
        self.db.connection.execute("UPDATE sweeps SET grid = ? WHERE id = ?", [_text(grid), sweep["id"]])
        there = [as_run(row) for row in self.db.rows(f"{RUN} WHERE runs.sweep_id = ? ORDER BY runs.id", [sweep["id"]])]
        like = Launch(
            sweep["experiment"],
            {},
            owner,
            there[0].preset if len({run.preset for run in there}) == 1 else None,
            terms=there[0].terms,
            sweep_id=sweep["id"],
            data_folder=named_data() or there[0].data_folder,
            command=there[0].command,
        )
        new = _alike(like, runs)
        self._changes.may_queue(new)
        return [self._changes.queue(run) for run in new]

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
                run for run in self._newest(sweep_id) if run.status in statuses and not is_spent(run.status, run.cause)
            ]
            if not again:
                raise WrongStatus(
                    f"Sweep {sweep_id} has no cell to retry: no cell's newest run is {' or '.join(statuses)}."
                )
            return self._repeat(again, by)

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
            again = [run for run in self._newest(sweep_id) if run.id in disturbed and run.config.get(SEED) in seeds]
            if not again:
                raise WrongStatus(f"Sweep {sweep_id} has no run to measure again: no cell's newest run was disturbed.")
            connection.execute("UPDATE sweeps SET exclusive = 1 WHERE id = ?", [sweep_id])
            return self._repeat(again, by)

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

    def _newest(self, sweep_id: int) -> list[Run]:
        """Return the newest run of each cell, oldest first."""
        return [as_run(row) for row in self.db.rows(f"{RUN} WHERE runs.id IN ({NEWEST_OF_CELLS})", [sweep_id])]

    def _repeat(self, runs: Sequence[Run], by: str) -> dict[int, int]:
        """Queue another run from the start of the cells of some runs, within a change; return each by the one that it
        repeats.
        """
        again = [Launch.again(run, by) for run in runs]
        self._changes.may_queue(again)
        made: dict[int, int] = {}
        for run, launch in zip(runs, again, strict=True):
            new = made[run.id] = self._changes.queue(launch)
            self._changes.note_event(run.id, RETRIED, by, f"as run {new}")
            self._changes.note_event(new, RETRIES, by, f"run {run.id} from the start")
            self.db.touch(run.id)
        return made

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


def _alike(like: Launch, runs: Sequence[Launch]) -> list[Launch]:
    return [replace(like, config=run.config, demand=run.demand, name=run.name) for run in runs]


def _text(grid: Mapping[str, Sequence[Any]]) -> str:
    return json.dumps({field: list(values) for field, values in grid.items()})


def _json(record: Draw | Timing | None) -> str:
    return json.dumps(asdict(record)) if record else ""


# ---- The failure limit of sweeps -----------------------------------------------------------------------------------


def stop_after_failures(changes: RunChanges, run_id: int) -> None:
    """Cancel the queued runs of a failed run's sweep if its failure limit is reached, within the change that ends the
    run.
    """
    sql = "SELECT sweeps.* FROM sweeps JOIN runs ON runs.sweep_id = sweeps.id WHERE runs.id = ?"
    sweep = changes.db.row(f"{sql} AND stop_after IS NOT NULL", [run_id])
    if sweep is None:
        return
    newest = changes.db.column(f"SELECT status FROM runs WHERE id IN ({NEWEST_OF_CELLS})", [sweep["id"]])
    failures = sum(status in BAD_ENDS for status in newest)
    if failures < sweep["stop_after"]:
        return
    runs, were = ("1 run", "was") if failures == 1 else (f"{failures} runs", "were")
    cause = (
        f"Cancelled: {runs} of sweep {sweep['id']} failed or {were} lost; the limit is {sweep['stop_after']} "
        "(stop after). Fix the cause and retry the sweep."
    )
    for each in queued_of(changes.db, sweep["id"]):
        changes.mark_cancelled(each, cause)
        changes.note_event(each, "cancelled", "runner", cause)
        changes.db.touch(each)


def queued_of(db: WriteConnection, sweep_id: int) -> list[int]:
    """Return the queued runs of a sweep, oldest first."""
    return db.column("SELECT id FROM runs WHERE sweep_id = ? AND status = 'queued' ORDER BY id", [sweep_id])
