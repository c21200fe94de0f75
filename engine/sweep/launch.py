"""Launching a sweep. Torch-free."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from engine.analysis.run_values import lower_title
from engine.cluster.targets import machine_for
from engine.config import MOST_SEED
from engine.config_values import value_in_words
from engine.errors import ConfigError
from engine.home import Home
from engine.launch import PAGE_TIMEOUT_S, kept_preset, owner_of
from engine.registry import definition
from engine.store import Launch, Store, SweepLaunch
from engine.store.launches import LaunchKey
from engine.store.runs.commands import NAME_LENGTH, checked_name
from engine.store.sweeps.sweeps import REPEAT, SEED
from engine.sweep.plan import SweepCell, plan, settings_of_work, with_seeds
from engine.system.machine import Machine, demand


def launch_sweep(
    home: Home, asked: SweepLaunch, *, timeout_s: float = PAGE_TIMEOUT_S, once: LaunchKey | None = None
) -> int:
    """Queue all runs of a sweep in one transaction and return the sweep's id. A repeated idempotency key `once`
    launches nothing and returns the existing sweep.

    With `timing`, the runner adds runs of each combination to the `seeds` ones until its median time is known. Raises
    what `plan` raises, DeviceError for a run that could never run here, StoreBusy if the store is locked.
    """
    sweep, runs, equal = _ready(home, asked)
    with Store.open(home, timeout_s=timeout_s) as store:
        return store.sweeps.add(sweep, runs, equal, once)


def rehearse_sweep(home: Home, asked: SweepLaunch, *, timeout_s: float = PAGE_TIMEOUT_S) -> list[Launch]:
    """Return the runs that `launch_sweep` would queue, and queue nothing; raises what it raises."""
    sweep, runs, equal = _ready(home, asked)
    with Store.open(home, timeout_s=timeout_s) as store, store.rehearsal():
        store.sweeps.add(sweep, runs, equal)
    return runs


def _ready(home: Home, asked: SweepLaunch) -> tuple[SweepLaunch, list[Launch], dict[str, Any]]:
    """Return a checked sweep with its runs, and the settings of its equal work."""
    asked = with_seeds(asked)
    shared = replace(asked.shared, owner=owner_of(asked.shared.owner), name=checked_name(asked.shared.name))
    if asked.stop_after is not None and asked.stop_after < 1:
        raise ConfigError.of(
            "stop_after", f"stop_after must be at least 1, got {asked.stop_after}. Omit it to continue after failures."
        )
    planned = plan(asked)
    fields = [field for field in planned.grid if field != SEED]
    equal = settings_of_work(definition(shared), shared.config, fields) if asked.equal_work else {}
    preset = kept_preset(shared, planned.cells[0].config.model_dump() | equal, but=planned.grid)
    if asked.timing:
        asked.timing.checked(fewest=asked.seeds)
    shared = replace(shared, preset=preset, terms=shared.terms.checked())
    runs = new_runs(planned.cells, shared, machine_for(home, shared.terms))
    if asked.timing:
        runs = [warm_up(runs[0], shared.name), *runs]
    return replace(asked, shared=shared, grid=planned.grid), runs, equal


def new_runs(cells: Iterable[SweepCell], shared: Launch, here: Machine) -> list[Launch]:
    """Return the launches of cells; raises DeviceError for one that could never run on a machine."""
    return [
        replace(
            shared,
            config=cell.config.model_dump(mode="json"),
            demand=demand(cell.config, here),
            name=_name(shared.name, _in_words(shared, cell.values)),
        )
        for cell in cells
    ]


def _in_words(shared: Launch, values: Mapping[str, Any]) -> str:
    """Return the values of a cell as groups of runs are named by them, such as `learning rate 0.1, seed 2`."""
    repeats = shared.command is not None and shared.command.numbers_repeats
    shown = {REPEAT if name == SEED and repeats else name: value for name, value in values.items()}
    return ", ".join(f"{lower_title(name)} {value_in_words(value)}" for name, value in shown.items())


def warm_up(first: Launch, title: str) -> Launch:
    """Return the run before the `first` one, which fills caches and whose time doesn't count: it has the seed before
    the first one's, which no cell has.
    """
    config = {**first.config, SEED: (first.config[SEED] - 1) % (MOST_SEED + 1)}
    return replace(first, config=config, name=_name(title, "warm-up"))


def _name(title: str, cell: str) -> str:
    """Return the name of a sweep's run; a title that is too long is cut and ends with an ellipsis."""
    room = max(1, NAME_LENGTH - len(cell) - len(": "))
    return f"{title if len(title) <= room else f'{title[: room - 1]}…'}: {cell}" if title else cell
