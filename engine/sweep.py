"""Sweeps: runs of one experiment over values of one or two fields, times seeds; from what a person writes to the queue. Torch-free."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, get_args

from engine.config import Config, choices_of, may_be_empty
from engine.errors import ConfigError, Problem, UnknownName
from engine.home import Home
from engine.launch import PAGE_TIMEOUT_S, owner_of
from engine.limits import NO_LIMITS, Limits
from engine.registry import experiment
from engine.runtime.machine import demand, machine
from engine.store import NewRun, Store
from engine.store.sweeps import SEED

MOST_RUNS = 500
MOST_FIELDS = 2
MOST_SENTENCES = 3
"""Of so many combinations that break a rule the sentence is told; of the rest the number."""
SMALL_COUNT = 16
_RANGE = re.compile(r"(-?\d+)\s*\.\.\s*(-?\d+)")


@dataclass(frozen=True)
class Cell:
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
    cells: tuple[Cell, ...]


def read_values(config: type[Config], field: str, text: str) -> tuple[Any, ...]:
    """Return what a person wrote for a field, in the field's type: `1, 2, 4, 8`, `1..10`, `gpipe, 1f1b`, `true, false`, `none`.

    A `;` in the text parts values that hold commas themselves. Raises ConfigError with a sentence for each value that breaks the field's rule.
    """
    if field not in config.model_fields:
        raise UnknownName("setting", field, config.model_fields, field=field)
    pieces = [piece.strip() for piece in text.split(";" if ";" in text else ",")]
    return _checked(config, field, [value for piece in pieces if piece for value in _expanded(config, field, piece)])


def usual_values(config: type[Config], field: str, base: Mapping[str, Any]) -> str:
    """Return values worth a first look as a person would write them, those left out that `base` does not go with.

    All choices of a field that has some; 1, 2, 4, 8 for a small count; else half, the same and double of what `base` has.
    """
    info, value = config.model_fields[field], base.get(field)
    is_count = int in (info.annotation, *get_args(info.annotation))
    tried: Iterable[Any]
    if choices := choices_of(info):
        tried = choices
    elif info.annotation is bool:
        tried = (False, True)
    elif is_count and (value or 0) <= SMALL_COUNT:
        tried = (1, 2, 4, 8)
    elif isinstance(value, int | float):
        tried = dict.fromkeys(value * factor if factor >= 1 or not is_count else value // 2 for factor in (0.5, 1, 2))
    else:
        tried = (value,) if value else ()
    return ", ".join(value_in_words(each) for each in tried if _allows(config, {**base, field: each}))


def plan(name: str, base: Mapping[str, Any], grid: Mapping[str, Sequence[Any]], seeds: int = 1) -> Plan:
    """Return every run of a sweep, seeds outermost: after the first seed the whole curve exists, and values that are compared run side by side.

    `base` holds the other settings; seeds count up from its own. Raises UnknownName, and ConfigError that names the combination.
    """
    config = experiment(name).config
    values = {field: _varied(config, field, written) for field, written in grid.items()}
    first_seed = config.check_field(SEED, base.get(SEED, config.model_fields[SEED].default))
    _check_size(values, seeds)
    whole = values | {SEED: tuple(range(first_seed, first_seed + seeds))}
    firsts = list(_combinations(values))
    _raise_broken(config, base, firsts)
    ordered = [chosen | {SEED: seed} for seed in whole[SEED] for chosen in firsts]
    return Plan(whole, tuple(Cell(chosen, config.check({**base, **chosen})) for chosen in ordered))


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
    limits: Limits = NO_LIMITS,
) -> int:
    """Queue all runs of a sweep in one transaction and return the sweep's id.

    Raises what `plan` raises, DeviceError where a run could never run here, StoreBusy where the store is held.
    """
    if preset:
        experiment(name).preset(preset)
    owner, title = owner_of(owner), title.strip()[:120]
    planned = plan(name, base, grid, seeds)
    here = machine()
    runs = [NewRun(cell.config.model_dump(mode="json"), demand(cell.config, here), f"{title}: {cell.name}" if title else cell.name) for cell in planned.cells]
    with Store.open(home, timeout_s=timeout_s) as store:
        return store.add_sweep(name, planned.grid, runs, owner=owner, preset=preset, name=title, limits=limits.checked())


def told(values: Mapping[str, Any]) -> str:
    """Return names and values in words, such as `splits 4, mode gpipe`."""
    return ", ".join(f"{name} {value_in_words(value)}" for name, value in values.items())


def value_in_words(value: Any) -> str:
    """Return one value as it is written in a form: `none` for an empty one."""
    if value is None:
        return "none"
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value) or "''"


def _expanded(config: type[Config], field: str, piece: str) -> list[Any]:
    """Return the values that one piece of text stands for: a range's numbers, nothing at all, or itself."""
    info = config.model_fields[field]
    found = _RANGE.fullmatch(piece) if info.annotation is not str else None
    if found is None:
        return [None if may_be_empty(info) and piece.lower() == "none" else piece]
    first, last = int(found[1]), int(found[2])
    if last < first:
        raise ConfigError([Problem(field, f"{field}: a range counts up, such as {last}..{first}, got '{piece}'.")])
    if last - first >= MOST_RUNS:
        raise ConfigError([Problem(field, f"{field}: a range may hold at most {MOST_RUNS} values, got '{piece}'. Give fewer.")])
    return list(range(first, last + 1))


def _varied(config: type[Config], field: str, written: Sequence[Any]) -> tuple[Any, ...]:
    if field == SEED:
        raise ConfigError([Problem(SEED, "seed can't be varied as a field: give the number of seeds, which count up from the form's own.")])
    if field not in config.model_fields:
        raise UnknownName("setting", field, config.model_fields, field=field)
    return _checked(config, field, written)


def _checked(config: type[Config], field: str, written: Sequence[Any]) -> tuple[Any, ...]:
    """Return values in the field's type; raises ConfigError for those that break its rule, for none at all and for one given twice."""
    values: list[Any] = []
    problems: list[Problem] = []
    for value in written:
        try:
            known = config.check_field(field, value)
        except ConfigError as error:
            problems += error.problems
            continue
        if known in values:
            problems.append(Problem(field, f"{field} has the value {value_in_words(known)} twice. Give each value once."))
        values.append(known)
    if not written:
        problems.append(Problem(field, f"{field} needs at least one value to vary over, such as {usual_values(config, field, {}) or 'its default'}."))
    if problems:
        raise ConfigError(dict.fromkeys(problems))
    return tuple(values)


def _check_size(values: Mapping[str, Sequence[Any]], seeds: int) -> None:
    if not 1 <= len(values) <= MOST_FIELDS:
        named = f"{len(values)}: {', '.join(values)}" if values else "none"
        raise ConfigError([Problem("", f"A sweep varies 1 or {MOST_FIELDS} fields, got {named}.")])
    if seeds < 1:
        raise ConfigError([Problem("seeds", f"seeds must be at least 1, got {seeds}.")])
    counts = [len(found) for found in values.values()] + [seeds]
    if prod(counts) > MOST_RUNS:
        sum_of_it = " x ".join(map(str, counts))
        raise ConfigError([Problem("", f"A sweep may have at most {MOST_RUNS} runs, got {sum_of_it} = {prod(counts):,}. Give fewer values or seeds.")])


def _combinations(values: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    return (dict(zip(values, chosen, strict=True)) for chosen in product(*values.values()))


def _raise_broken(config: type[Config], base: Mapping[str, Any], combinations: Sequence[Mapping[str, Any]]) -> None:
    """Raise one ConfigError for all combinations that break a rule; what every one of them breaks alike is said once, without their names."""
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
    problems = [Problem(problem.field, f"With {which}: {problem.sentence}") for which, found in shown for problem in found]
    if left := len(broken) - len(shown):
        problems.append(Problem("", f"So {'does' if left == 1 else 'do'} {left} more of the {len(combinations)} combinations."))
    raise ConfigError(problems)


def _allows(config: type[Config], values: Mapping[str, Any]) -> bool:
    try:
        config.check(values)
    except ConfigError:
        return False
    return True
