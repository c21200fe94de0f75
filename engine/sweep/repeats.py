"""The repeats of a sweep for timing: which combinations need another run, until the median of their times is known.
Torch-free.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.analysis.statistics.groups import Group
from engine.analysis.sweep_cells import measured, tries
from engine.cluster.targets import machine_for
from engine.registry import experiment
from engine.store import Reader, Store, Sweep
from engine.store.records import ENDED, RunRow
from engine.store.sweeps.sweeps import SEED
from engine.sweep.extend import check_rule
from engine.sweep.launch import new_runs
from engine.sweep.plan import SweepCell


@dataclass(frozen=True)
class TimedCombination:
    """One combination of values of a sweep for timing."""

    values: tuple[Any, ...]
    """Of the varied fields, without the seed."""
    runs: tuple[RunRow, ...]
    """The newest run of each seed."""
    times: Group
    """The execution times (s) of its finished, undisturbed runs; may be empty."""

    def is_known(self, within: float) -> bool:
        """Return whether the interval of its median time lies `within` this share of the median."""
        return self.times.precision is not None and self.times.precision <= within


def combinations(sweep: Sweep, runs: Sequence[RunRow]) -> list[TimedCombination]:
    """Return the combinations of a sweep in the order of their first runs."""
    found: dict[tuple[Any, ...], list[RunRow]] = {}
    for cell, tried in tries(sweep, measured(sweep, runs)).items():
        found.setdefault(cell[:-1], []).append(tried[-1])
    return [
        TimedCombination(
            values,
            tuple(newest),
            Group(
                values,
                {
                    run.id: run.execution_time_s
                    for run in newest
                    if run.status == "finished" and not run.disturbed and run.execution_time_s is not None
                },
            ),
        )
        for values, newest in found.items()
    ]


def missing(sweep: Sweep, runs: Sequence[RunRow]) -> list[SweepCell]:
    """Return the next run of each combination whose median is not known well enough; none while runs are left, for a
    sweep that someone cancelled, and for combinations with a run that failed or was lost.
    """
    timing = sweep.timing
    if timing is None or sweep.held or any(run.status not in ENDED for run in runs):
        return []
    found = combinations(sweep, runs)
    if any(run.status == "cancelled" for each in found for run in each.runs):
        return []
    return [
        _next(sweep, each)
        for each in found
        if len(each.runs) < timing.most
        and all(run.status == "finished" for run in each.runs)
        and not each.is_known(timing.within)
    ]


def repeat(reader: Reader, store: Store, sweep_id: int) -> list[int]:
    """Queue the missing runs of a sweep for timing and return their ids.

    Raises NoSuchSweep, ConfigError for runs of another seeding rule, DeviceError, LimitReached, StoreBusy.
    """
    with reader.db.snapshot():
        sweep, runs = reader.sweeps.one(sweep_id), reader.sweeps.runs(sweep_id)
    cells = missing(sweep, runs)
    if not cells:
        return []
    new = new_runs(cells, sweep.name, machine_for(store.db.home, reader.runs.one(runs[0].id).terms))
    check_rule(sweep, runs)
    seeds = dict.fromkeys([*sweep.seeds, *sorted(cell.values[SEED] for cell in cells)])
    return store.sweeps.repeat(sweep_id, sweep.grid, {**sweep.grid, SEED: tuple(seeds)}, new)


def _next(sweep: Sweep, found: TimedCombination) -> SweepCell:
    """Return the next cell of a combination: its settings with the next seed."""
    seed = max(run.config[SEED] for run in found.runs) + 1
    values: Mapping[str, Any] = dict(zip(sweep.grid, (*found.values, seed), strict=True))
    config = experiment(sweep.experiment).config.check({**found.runs[-1].config, SEED: seed})
    return SweepCell(values, config)
