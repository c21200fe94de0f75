"""Sweeps: runs of one experiment over values of one or two fields, times seeds; from what a person writes to the queue.
Torch-free.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from engine.config import Config
from engine.config_values import MOST_RUNS, checked, told
from engine.errors import ConfigError, Problem, UnknownName
from engine.home import Home
from engine.launch import PAGE_TIMEOUT_S, owner_of
from engine.launch_options import USUAL, Terms
from engine.registry import experiment
from engine.store import NewRun, Store
from engine.store.runs.commands import NAME_LENGTH, checked_name
from engine.store.sweeps.sweeps import SEED
from engine.sweep.random_search import Draw, combinations
from engine.system.machine import demand, machine

MOST_FIELDS = 2
MOST_SENTENCES = 3
"""Of so many combinations that break a rule the sentence is told; of the rest the number."""


@dataclass(frozen=True)
class SweepCell:
    """One run to be: the values of the fields that vary, the seed last, and its whole config."""

    values: Mapping[str, Any]
    config: Config

    @property
    def name(self) -> str:
        """What the run is called, such as `splits 4, seed 1`."""
        return told(self.values)


@dataclass(frozen=True)
class Plan:
    """A sweep before its launch: every run in the order of the queue."""

    grid: Mapping[str, tuple[Any, ...]]
    """The values of each field that varies, the seed last."""
    cells: tuple[SweepCell, ...]


def plan(
    name: str,
    base: Mapping[str, Any],
    grid: Mapping[str, Sequence[Any]],
    seeds: int = 1,
    *,
    draw: Draw | None = None,
    exclusive: bool = False,
) -> Plan:
    """Return every run of a sweep, seeds outermost: after the first seed the whole curve exists, and values that are
    compared run side by side.

    `base` holds the other settings; seeds count up from its own. A `draw` takes the place of `grid`. In an exclusive
    sweep fields of words change fastest (A B A B), so that what slows the machine for a while falls on all modes alike.
    Raises UnknownName, and ConfigError that names the combination.
    """
    config = experiment(name).config
    first_seed = config.check_field(SEED, base.get(SEED, config.model_fields[SEED].default))
    if draw:
        values, firsts = _drawn(config, base, draw, seeds)
    else:
        values = {field: _varied(config, field, written) for field, written in grid.items()}
        _check_size(values, seeds)
        firsts = list(_combinations(values, interleaved=exclusive))
        _raise_broken(config, base, firsts)
    whole = values | {SEED: tuple(range(first_seed, first_seed + seeds))}
    ordered = [chosen | {SEED: seed} for seed in whole[SEED] for chosen in firsts]
    return Plan(whole, tuple(SweepCell(chosen, config.check({**base, **chosen})) for chosen in ordered))


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
    terms: Terms = USUAL,
    figure: str = "",
) -> int:
    """Queue all runs of a sweep in one transaction and return the sweep's id.

    `stop_after` so many failed cells what is still queued is cancelled; `figure` names the published figure that it
    reproduces. Raises what `plan` raises, DeviceError where a run could never run here, StoreBusy where the store is
    held.
    """
    if preset:
        experiment(name).preset(preset)
    owner, title = owner_of(owner), checked_name(title)
    if stop_after is not None and stop_after < 1:
        raise ConfigError(
            [
                Problem(
                    "stop_after",
                    f"stop_after must be at least 1, got {stop_after}. Leave it out to go on whatever fails.",
                )
            ]
        )
    planned = plan(name, base, grid, seeds, draw=draw, exclusive=exclusive)
    runs = new_runs(planned.cells, title)
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
        )


@dataclass(frozen=True)
class SweepOrder:
    """A sweep that is wanted: what `launch_sweep` takes, before anybody has launched it."""

    experiment: str
    preset: str | None
    base: Mapping[str, Any]
    grid: Mapping[str, Sequence[Any]]
    seeds: int
    title: str = ""
    draw: Draw | None = None
    exclusive: bool = False
    stop_after: int | None = None
    terms: Terms = USUAL
    figure: str = ""
    """The published figure that it reproduces, with its size."""

    def plan(self) -> Plan:
        """Return every run of it; raises what `plan` raises."""
        return plan(self.experiment, self.base, self.grid, self.seeds, draw=self.draw, exclusive=self.exclusive)

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
        )


def new_runs(cells: Iterable[SweepCell], title: str) -> list[NewRun]:
    """Return cells as the store queues them; raises DeviceError for one that could never run here."""
    here = machine()
    return [
        NewRun(cell.config.model_dump(mode="json"), demand(cell.config, here), _name(title, cell.name))
        for cell in cells
    ]


def _name(title: str, cell: str) -> str:
    """Return what a run of a sweep is called; a title that leaves no room for its cell is cut, which the name shows."""
    room = max(1, NAME_LENGTH - len(cell) - len(": "))
    return f"{title if len(title) <= room else f'{title[: room - 1]}…'}: {cell}" if title else cell


def _varied(config: type[Config], field: str, written: Sequence[Any]) -> tuple[Any, ...]:
    if field == SEED:
        raise _seed_is_no_field()
    if field not in config.model_fields:
        raise UnknownName("setting", field, config.model_fields, field=field)
    return checked(config, field, written)


def _check_size(values: Mapping[str, Sequence[Any]], seeds: int) -> None:
    if not 1 <= len(values) <= MOST_FIELDS:
        named = f"{len(values)}: {', '.join(values)}" if values else "none"
        raise ConfigError([Problem("", f"A sweep varies 1 or {MOST_FIELDS} fields, got {named}.")])
    _raise_size([*(len(found) for found in values.values()), seeds])


def _raise_size(counts: Sequence[int]) -> None:
    """Raise ConfigError where the product of the counts, the seeds last, is more runs than a sweep may have."""
    if counts[-1] < 1:
        raise ConfigError([Problem("seeds", f"seeds must be at least 1, got {counts[-1]}.")])
    if prod(counts) > MOST_RUNS:
        sum_of_it = " x ".join(map(str, counts))
        raise ConfigError(
            [
                Problem(
                    "",
                    (
                        f"A sweep may have at most {MOST_RUNS} runs, got {sum_of_it} = {prod(counts):,}. Give "
                        "fewer values or seeds."
                    ),
                )
            ]
        )


def _combinations(values: Mapping[str, Sequence[Any]], interleaved: bool) -> Iterator[dict[str, Any]]:
    """Yield all combinations, the last field changing fastest; `interleaved` puts fields of words last."""
    order = sorted(values, key=lambda field: interleaved and not _is_scale(values[field]))
    for chosen in product(*(values[field] for field in order)):
        known = dict(zip(order, chosen, strict=True))
        yield {field: known[field] for field in values}


def _is_scale(values: Sequence[Any]) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _drawn(
    config: type[Config], base: Mapping[str, Any], draw: Draw, seeds: int
) -> tuple[dict[str, tuple[Any, ...]], list[dict[str, Any]]]:
    """Return the values that each field of a draw takes, numbers in their order, and the combinations in the order
    drawn.
    """
    if SEED in draw.over:
        raise _seed_is_no_field()
    _raise_size([draw.count, seeds])
    firsts = combinations(config, base, draw)
    columns = {field: list(dict.fromkeys(chosen[field] for chosen in firsts)) for field in draw.over}
    return {field: tuple(sorted(found) if _is_scale(found) else found) for field, found in columns.items()}, firsts


def _seed_is_no_field() -> ConfigError:
    return ConfigError(
        [
            Problem(
                SEED, "seed can't be varied as a field: give the number of seeds, which count up from the form's own."
            )
        ]
    )


def _raise_broken(config: type[Config], base: Mapping[str, Any], combinations: Sequence[Mapping[str, Any]]) -> None:
    """Raise one ConfigError for all combinations that break a rule; what every one of them breaks alike is said once,
    without their names.
    """
    broken: dict[str, tuple[Problem, ...]] = {}
    for values in combinations:
        try:
            config.check({**base, **values})
        except ConfigError as error:
            broken[told(values)] = error.problems
    if not broken:
        return
    if len(broken) == len(combinations) and len(set(broken.values())) == 1:
        raise ConfigError(next(iter(broken.values())))
    shown = list(broken.items())[:MOST_SENTENCES]
    problems = [
        Problem(problem.field, f"With {which}: {problem.sentence}") for which, found in shown for problem in found
    ]
    if left := len(broken) - len(shown):
        problems.append(
            Problem("", f"So {'does' if left == 1 else 'do'} {left} more of the {len(combinations)} combinations.")
        )
    raise ConfigError(problems)
