"""What people do to sweeps: launch one, end all of it. Each command is one transaction, whatever the number of runs."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.errors import ConfigError, Problem, WrongStatus
from engine.limits import NO_LIMITS, Limits
from engine.store.clock import now
from engine.store.commands import Commands
from engine.store.records import ENDED, Demand, Status


@dataclass(frozen=True)
class NewRun:
    """One run of a sweep, before it has a number."""

    config: Mapping[str, Any]
    demand: Demand
    name: str


class SweepCommands(Commands):
    """The commands about whole sweeps."""

    def add_sweep(
        self,
        experiment: str,
        grid: Mapping[str, Sequence[Any]],
        runs: Sequence[NewRun],
        *,
        owner: str,
        preset: str | None = None,
        name: str = "",
        limits: Limits = NO_LIMITS,
    ) -> int:
        """Queue the runs of a sweep in their order and return the sweep's id; all of them are queued, or none.

        `grid` names the fields that vary, the seed among them, with their values. Raises ConfigError where there is no run.
        """
        if not runs:
            raise ConfigError([Problem("", "A sweep needs at least one run.")])
        with self.change() as connection:
            sql = "INSERT INTO sweeps (experiment, name, owner, grid, created_at) VALUES (?, ?, ?, ?, ?)"
            texts = json.dumps({field: list(values) for field, values in grid.items()})
            sweep_id = connection.execute(sql, [experiment, name, owner, texts, now()]).lastrowid
            assert sweep_id is not None
            for run in runs:
                self._queue(experiment, run.config, owner=owner, demand=run.demand, preset=preset, name=run.name, sweep_id=sweep_id, limits=limits)
        return sweep_id

    def request_cancel_sweep(self, sweep_id: int, *, by: str, force: bool = False) -> dict[int, Status]:
        """Ask for the end of all runs of a sweep: queued ones are cancelled at once, live ones are stopping. Returns each one's new status.

        Runs that have ended stay as they are and are not named. Raises NoSuchSweep, WrongStatus where all have ended.
        """
        with self.change():
            found = self.rows("SELECT id, status FROM runs WHERE sweep_id = ? ORDER BY id", [sweep_id])
            if not found and self.row("SELECT 1 FROM sweeps WHERE id = ?", [sweep_id]) is None:
                raise self.no_such_sweep(sweep_id)
            left: dict[int, Status] = {row["id"]: row["status"] for row in found if row["status"] not in ENDED}
            if not left:
                raise WrongStatus(f"Sweep {sweep_id} can't be cancelled: all its {len(found)} runs have ended already.")
            return {run_id: self._cancel(run_id, status, by, "force" if force else "cancel") for run_id, status in left.items()}
