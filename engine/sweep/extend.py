"""Extending a sweep: more values, seeds or draws, as new cells of the same sweep. Torch-free."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from engine.analysis.sweep_cells import tries
from engine.cluster.targets import machine_for
from engine.errors import ConfigError, Problem
from engine.home import Home
from engine.launch import PAGE_TIMEOUT_S, owner_of
from engine.seeding import SEEDING
from engine.store import Reader, Store, Sweep
from engine.store.records import RunRow
from engine.store.sweeps.sweeps import SEED
from engine.sweep.launch import new_runs
from engine.sweep.plan import Plan, plan
from engine.sweep.random_search import Draw


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
    draw = Draw(sweep.draw["count"] + draws, sweep.draw["seed"], sweep.draw["over"]) if sweep.draw else None
    grid = {field: (*sweep.grid[field], *more.get(field, ())) for field in sweep.fields}
    whole = plan(
        sweep.experiment,
        base,
        grid,
        len(sweep.seeds) + seeds,
        draw=draw,
        exclusive=sweep.exclusive,
        equal_work=bool(sweep.equal_work),
    )
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
    new = new_runs(planned.cells, sweep.name, machine_for(home, terms))
    with Store.open(home, timeout_s=timeout_s) as store:
        return store.sweeps.extend(
            sweep_id, sweep.grid, planned.grid, new, by=owner, draw=draw.as_json() if draw else None
        )


def check_rule(sweep: Sweep, runs: Sequence[RunRow]) -> None:
    """Raise ConfigError if new runs would use another seeding rule than the finished ones."""
    if others := sorted({run.seeding for run in runs if run.status == "finished"} - {SEEDING}):
        words = (
            f"Sweep {sweep.id} can't be extended: its runs use seeding rule {others[0]}, and new runs use "
            f"rule {SEEDING}. Launch a new sweep."
        )
        raise ConfigError([Problem("", words)])


def _check(sweep: Sweep, more: Mapping[str, Sequence[Any]], seeds: int, draws: int) -> None:
    problems = [
        Problem(
            field,
            (
                f"Sweep {sweep.id} does not vary {field}; it varies {' and '.join(sweep.fields)}. Launch a new "
                "sweep for it."
            ),
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
