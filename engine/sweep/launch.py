"""Launching a sweep. Torch-free."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.cluster.targets import machine_for
from engine.config import MOST_SEED
from engine.errors import ConfigError, Problem
from engine.home import Home
from engine.launch import PAGE_TIMEOUT_S, owner_of
from engine.launch_options import USUAL, LaunchOptions
from engine.registry import experiment
from engine.store import NewRun, Store
from engine.store.runs.commands import NAME_LENGTH, checked_name
from engine.store.sweeps.sweeps import SEED, Timing
from engine.sweep.plan import Plan, SweepCell, plan, settings_of_work
from engine.sweep.random_search import Draw
from engine.system.machine import Machine, demand


def launch_sweep(
    home: Home,
    name: str,
    base: Mapping[str, Any],
    grid: Mapping[str, Sequence[Any]],
    seeds: int = 1,
    *,
    owner: str,
    preset: str | None = None,
    title: str = "",
    timeout_s: float = PAGE_TIMEOUT_S,
    draw: Draw | None = None,
    exclusive: bool = False,
    stop_after: int | None = None,
    terms: LaunchOptions = USUAL,
    figure: str = "",
    timing: Timing | None = None,
    equal_work: bool = False,
) -> int:
    """Queue all runs of a sweep in one transaction and return the sweep's id.

    After `stop_after` failed cells the queued runs are cancelled; `figure` names the published figure that it
    reproduces. A preset of which other settings than the varied ones were changed is not recorded. `equal_work` gives
    every combination the total work of `base`. With `timing` it
    is exclusive, begins with a warm-up run, and the runner adds runs of each combination to the `seeds` ones until
    its median time is known. Raises what `plan` raises, DeviceError for a run that could never run here, StoreBusy
    if the store is locked.
    """
    known = experiment(name)
    usual = known.configure(preset)
    owner, title = owner_of(owner), checked_name(title)
    if stop_after is not None and stop_after < 1:
        raise ConfigError(
            [
                Problem(
                    "stop_after",
                    f"stop_after must be at least 1, got {stop_after}. Omit it to continue after failures.",
                )
            ]
        )
    exclusive = exclusive or timing is not None
    planned = plan(name, base, grid, seeds, draw=draw, exclusive=exclusive, equal_work=equal_work)
    fields = [field for field in planned.grid if field != SEED]
    equal = settings_of_work(known, base, fields) if equal_work else {}
    fixed = planned.cells[0].config.model_dump() | equal
    if any(fixed[field] != value for field, value in usual.model_dump(exclude={*planned.grid}).items()):
        preset = None
    if timing:
        timing.checked(fewest=seeds)
    runs = new_runs(planned.cells, title, machine_for(home, terms))
    if timing:
        runs = [warm_up(runs[0], title), *runs]
    drawn = draw.as_json() if draw else None
    with Store.open(home, timeout_s=timeout_s) as store:
        return store.sweeps.add(
            name,
            planned.grid,
            runs,
            owner=owner,
            preset=preset,
            name=title,
            exclusive=exclusive,
            stop_after=stop_after,
            draw=drawn,
            terms=terms.checked(),
            figure=figure,
            timing=timing,
            equal_work=equal,
        )


@dataclass(frozen=True)
class SweepOrder:
    """A sweep to launch: the arguments of `launch_sweep`."""

    experiment: str
    preset: str | None
    base: Mapping[str, Any]
    grid: Mapping[str, Sequence[Any]]
    seeds: int
    title: str = ""
    draw: Draw | None = None
    exclusive: bool = False
    stop_after: int | None = None
    terms: LaunchOptions = USUAL
    figure: str = ""
    """The published figure that it reproduces, with its size (`hogwild/full`)."""
    timing: Timing | None = None
    equal_work: bool = False

    def plan(self) -> Plan:
        """Return its runs; raises what `plan` raises."""
        exclusive = self.exclusive or self.timing is not None
        return plan(
            self.experiment,
            self.base,
            self.grid,
            self.seeds,
            draw=self.draw,
            exclusive=exclusive,
            equal_work=self.equal_work,
        )

    def launch(self, home: Home, *, owner: str, timeout_s: float = PAGE_TIMEOUT_S) -> int:
        """Queue it and return the sweep's id; raises what `launch_sweep` raises."""
        return launch_sweep(
            home,
            self.experiment,
            self.base,
            self.grid,
            self.seeds,
            owner=owner,
            preset=self.preset,
            title=self.title,
            timeout_s=timeout_s,
            draw=self.draw,
            exclusive=self.exclusive,
            stop_after=self.stop_after,
            terms=self.terms,
            figure=self.figure,
            timing=self.timing,
            equal_work=self.equal_work,
        )


def new_runs(cells: Iterable[SweepCell], title: str, here: Machine) -> list[NewRun]:
    """Return cells as new runs for the store; raises DeviceError for one that could never run on a machine."""
    return [
        NewRun(cell.config.model_dump(mode="json"), demand(cell.config, here), _name(title, cell.name))
        for cell in cells
    ]


def warm_up(first: NewRun, title: str) -> NewRun:
    """Return the run before the `first` one, which fills caches and whose time doesn't count: it has the seed before
    the first one's, which no cell has.
    """
    config = {**first.config, SEED: (first.config[SEED] - 1) % (MOST_SEED + 1)}
    return NewRun(config, first.demand, _name(title, "warm-up"))


def _name(title: str, cell: str) -> str:
    """Return the name of a sweep's run; a title that is too long is cut and ends with an ellipsis."""
    room = max(1, NAME_LENGTH - len(cell) - len(": "))
    return f"{title if len(title) <= room else f'{title[: room - 1]}…'}: {cell}" if title else cell
