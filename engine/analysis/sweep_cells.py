"""The cells of a sweep: one per combination of values and seed, with every run of it. Torch-free."""

from collections.abc import Mapping, Sequence
from typing import Any

from engine.store import Sweep
from engine.store.records import RunRow
from engine.store.sweeps.sweeps import SEED


def cell_of(sweep: Sweep, values: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the key of a config's cell: the values of the varied fields, the seed last."""
    return tuple(values.get(name) for name in sweep.grid)


def tries(sweep: Sweep, runs: Sequence[RunRow]) -> dict[tuple[Any, ...], list[RunRow]]:
    """Return the runs of each cell, oldest first, in the order in which cells were queued."""
    found: dict[tuple[Any, ...], list[RunRow]] = {}
    for run in sorted(runs, key=lambda run: run.id):
        found.setdefault(cell_of(sweep, run.config), []).append(run)
    return found


def is_warm_up(sweep: Sweep, run: RunRow) -> bool:
    """Return whether a run is the warm-up of a sweep for timing, which belongs to no cell."""
    return sweep.timing is not None and run.config.get(SEED) not in sweep.seeds


def measured(sweep: Sweep, runs: Sequence[RunRow]) -> list[RunRow]:
    """Return the runs without a warm-up, and without disturbed ones whose cell was measured again undisturbed."""
    runs = [run for run in runs if not is_warm_up(sweep, run)]
    clean = {cell_of(sweep, run.config) for run in runs if run.status == "finished" and not run.disturbed}
    return [run for run in runs if not run.disturbed or cell_of(sweep, run.config) not in clean]


def newest(sweep: Sweep, runs: Sequence[RunRow]) -> list[RunRow]:
    """Return the run of each cell that was queued last."""
    return [tried[-1] for tried in tries(sweep, runs).values()]


def to_measure_again(sweep: Sweep, runs: Sequence[RunRow]) -> list[RunRow]:
    """Return the disturbed runs that a sweep repeats if it is measured again."""
    return [run for run in newest(sweep, runs) if run.disturbed and not is_warm_up(sweep, run)]
