"""Extending a sweep: more values, seeds or draws, as new cells of the same sweep. Torch-free."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from engine.analysis.run_values import measured, tries
from engine.analysis.statistics.groups import Group
from engine.cluster.targets import machine_for
from engine.errors import ConfigError, Problem
from engine.home import Home
from engine.launch import PAGE_TIMEOUT_S, owner_of
from engine.registry import definition
from engine.seeding import SEEDING
from engine.store import Launch, Reader, Store, Sweep, SweepLaunch
from engine.store.launches import Draw
from engine.store.records import ENDED, RunRow
from engine.store.sweeps.sweeps import SEED
from engine.sweep.launch import new_runs
from engine.sweep.plan import Plan, SweepCell, plan


def plan_more(
    sweep: Sweep, runs: Sequence[RunRow], more: Mapping[str, Sequence[Any]], seeds: int = 0, draws: int = 0
) -> tuple[Plan, Draw | None]:
    """Return the missing cells of a sweep extended by `more` values of its fields, `seeds` and `draws`, and the larger
    draw.

    The plan's grid is the whole one. In a sweep for timing a new combination gets the fewest runs that another one has,
    and an existing one only `seeds` more: the runner repeats what needs it. Raises ConfigError for a field that does
    not vary, and what `engine.sweep.plan` raises.
    """
    _check(sweep, more, seeds, draws)
    base = {name: value for name, value in runs[0].config.items() if name not in sweep.fields}
    base |= {SEED: sweep.seeds[0], **sweep.equal_work}
    draw = replace(sweep.draw, count=sweep.draw.count + draws) if sweep.draw else None
    grid = {field: (*sweep.grid[field], *more.get(field, ())) for field in sweep.fields}
    larger = SweepLaunch(_shared(sweep, base), grid, len(sweep.seeds) + seeds, draw, sweep.exclusive)
    whole = plan(replace(larger, equal_work=bool(sweep.equal_work)))
    there = tries(sweep, runs)
    missing = [cell for cell in whole.cells if tuple(cell.values[name] for name in sweep.grid) not in there]
    if sweep.timing:
        repeats = Counter(key[:-1] for key in there if key[-1] in sweep.seeds)
        first, fewest = sweep.seeds[0], min(repeats.values())
        missing = [
            cell
            for cell in missing
            if cell.values[SEED] - first < repeats.get(tuple(map(cell.values.get, sweep.fields)), fewest) + seeds
        ]
    return Plan(whole.grid, tuple(missing)), draw


def extend_sweep(
    home: Home,
    sweep_id: int,
    more: Mapping[str, Sequence[Any]],
    seeds: int = 0,
    draws: int = 0,
    *,
    owner: str,
    timeout_s: float = PAGE_TIMEOUT_S,
) -> list[int]:
    """Queue the missing runs of a sweep in one transaction and return their ids.

    Raises NoSuchSweep, what `plan_more` raises, ConfigError if nothing is new, DeviceError, StoreBusy.
    """
    owner = owner_of(owner)
    with Reader.open(home, timeout_s=timeout_s) as reader, reader.db.snapshot():
        sweep, runs = reader.sweeps.one(sweep_id), reader.sweeps.runs(sweep_id)
        terms = reader.runs.one(runs[0].id).terms
    check_rule(sweep, runs)
    planned, draw = plan_more(sweep, runs, more, seeds, draws)
    new = new_runs(planned.cells, _shared(sweep), machine_for(home, terms))
    with Store.open(home, timeout_s=timeout_s) as store:
        return store.sweeps.extend(sweep_id, sweep.grid, planned.grid, new, by=owner, draw=draw)


def _shared(sweep: Sweep, base: Mapping[str, Any] | None = None) -> Launch:
    """Return what the runs of a sweep share."""
    return Launch(sweep.experiment, base or {}, name=sweep.name, command=sweep.command)


def check_rule(sweep: Sweep, runs: Sequence[RunRow]) -> None:
    """Raise ConfigError if new runs would use another seeding rule than the finished ones."""
    if others := sorted({run.seeding for run in runs if run.status == "finished"} - {SEEDING}):
        rules = f"its runs use seeding rule {others[0]}, and new runs use rule {SEEDING}"
        raise ConfigError.of("", f"Sweep {sweep.id} can't be extended: {rules}. Launch a new sweep.")


def _check(sweep: Sweep, more: Mapping[str, Sequence[Any]], seeds: int, draws: int) -> None:
    problems = [
        Problem(
            field,
            f"Sweep {sweep.id} does not vary {field}; it varies {' and '.join(sweep.fields)}. Launch a new sweep for "
            "it.",
        )
        for field in more
        if field not in sweep.fields
    ]
    if more and sweep.draw:
        problems.append(Problem("", f"Sweep {sweep.id} is a random search: add draws or seeds instead of values."))
    if draws and not sweep.draw:
        problems.append(Problem("draw", f"Sweep {sweep.id} is a grid search: add values or seeds instead of draws."))
    problems += [
        Problem(name, f"{name} must be at least 0, got {count}.")
        for name, count in (("seeds", seeds), ("draw", draws))
        if count < 0
    ]
    if not (more or seeds or draws):
        problems.append(Problem("", "Nothing to add: give more values of a varied field, more seeds, or more draws."))
    if problems:
        raise ConfigError(problems)


# ------------------------------------------------------------------------------------------------------------------
# The repeats of a sweep for timing: which combinations need another run, until the median of their times is known.
# Torch-free.


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
    here = machine_for(store.db.home, reader.runs.one(runs[0].id).terms)
    new = new_runs(cells, _shared(sweep), here)
    check_rule(sweep, runs)
    seeds = dict.fromkeys([*sweep.seeds, *sorted(cell.values[SEED] for cell in cells)])
    return store.sweeps.repeat(sweep_id, sweep.grid, {**sweep.grid, SEED: tuple(seeds)}, new)


def _next(sweep: Sweep, found: TimedCombination) -> SweepCell:
    """Return the next cell of a combination: its settings with the next seed."""
    seed = max(run.config[SEED] for run in found.runs) + 1
    values: Mapping[str, Any] = dict(zip(sweep.grid, (*found.values, seed), strict=True))
    given = {**found.runs[-1].config, SEED: seed}
    return SweepCell(values, definition(_shared(sweep, given)).config.check(given))
