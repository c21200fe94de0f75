"""Sweep plans: the runs of one experiment over values of one or two fields, times seeds. Torch-free."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from engine.analysis.total_work import unreached_of
from engine.config import Config
from engine.config_values import MOST_RUNS, checked, values_in_words
from engine.errors import ConfigError, Problem, UnknownName
from engine.registry import experiment
from engine.store.sweeps.sweeps import SEED
from engine.sweep.equal_work import equal_lengths
from engine.sweep.random_search import Draw, combinations

MOST_FIELDS = 2
MOST_SENTENCES = 3
"""Number of invalid combinations that are named; the others are counted."""


@dataclass(frozen=True)
class SweepCell:
    """One planned run: the values of the varied fields, the seed last, and its whole config."""

    values: Mapping[str, Any]
    config: Config

    @property
    def name(self) -> str:
        """The name of the run, such as `splits 4, seed 1`."""
        return values_in_words(self.values)


@dataclass(frozen=True)
class Plan:
    """A sweep before its launch: its runs in queue order."""

    grid: Mapping[str, tuple[Any, ...]]
    """The values of each varied field, the seed last."""
    cells: tuple[SweepCell, ...]


def plan(
    name: str,
    base: Mapping[str, Any],
    grid: Mapping[str, Sequence[Any]],
    seeds: int = 1,
    *,
    draw: Draw | None = None,
    exclusive: bool = False,
    equal_work: bool = False,
) -> Plan:
    """Return the runs of a sweep, seeds outermost: the whole curve exists after the first seed, and compared values run
    close together.

    `base` holds the other settings; seeds count up from its seed. A `draw` replaces `grid`. In an exclusive sweep,
    non-numeric fields change fastest (A B A B), so that a temporary slowdown affects all modes equally. With
    `equal_work` each combination has the length for which its total work is that of `base`, varied fields included.
    Raises UnknownName, and ConfigError that names the combination.
    """
    found = experiment(name)
    config = found.config
    first_seed = config.check_field(SEED, base.get(SEED, config.model_fields[SEED].default))
    if draw:
        values, firsts = _drawn(config, base, draw, seeds)
    else:
        values = {field: _varied(config, field, written) for field, written in grid.items()}
        _check_size(values, seeds)
        firsts = list(_combinations(values, interleaved=exclusive))
        _raise_broken(config, base, firsts)
    lengths = equal_lengths(found, base, firsts) if equal_work else [{} for _ in firsts]
    _raise_broken(config, base, [length | chosen for chosen, length in zip(firsts, lengths, strict=True)])
    whole = values | {SEED: tuple(range(first_seed, first_seed + seeds))}
    cells = [
        SweepCell(chosen | {SEED: seed}, config.check({**base, **length, **chosen, SEED: seed}))
        for seed in whole[SEED]
        for chosen, length in zip(firsts, lengths, strict=True)
    ]
    return Plan(whole, tuple(cells))


def cautions(name: str, planned: Plan, limit_s: float | None = None) -> list[str]:
    """Return a caution for each interval that exceeds the length of a run of the sweep."""
    cells = {
        values_in_words({field: value for field, value in cell.values.items() if field != SEED}): cell.config
        for cell in planned.cells
    }
    return unreached_of(experiment(name), cells, limit_s)


def _varied(config: type[Config], field: str, written: Sequence[Any]) -> tuple[Any, ...]:
    if field == SEED:
        raise _seed_is_no_field()
    if field not in config.model_fields:
        raise UnknownName("setting", field, config.model_fields, field=field)
    return checked(config, field, written)


def _check_size(values: Mapping[str, Sequence[Any]], seeds: int) -> None:
    if not 1 <= len(values) <= MOST_FIELDS:
        named = f"{len(values)}: {', '.join(values)}" if values else "none"
        raise ConfigError([Problem("", f"A sweep must vary 1 or {MOST_FIELDS} fields, got {named}.")])
    _raise_size([*(len(found) for found in values.values()), seeds])


def _raise_size(counts: Sequence[int]) -> None:
    """Raise ConfigError if the product of the counts, the seeds last, exceeds the limit of runs per sweep."""
    if counts[-1] < 1:
        raise ConfigError([Problem("seeds", f"seeds must be at least 1, got {counts[-1]}.")])
    if prod(counts) > MOST_RUNS:
        factors = " x ".join(map(str, counts))
        raise ConfigError(
            [
                Problem(
                    "",
                    (
                        f"A sweep may have at most {MOST_RUNS} runs, got {factors} = {prod(counts):,}. Give "
                        "fewer values or seeds."
                    ),
                )
            ]
        )


def _combinations(values: Mapping[str, Sequence[Any]], interleaved: bool) -> Iterator[dict[str, Any]]:
    """Yield all combinations, the last field changing fastest; `interleaved` puts non-numeric fields last."""
    order = sorted(values, key=lambda field: interleaved and not _is_scale(values[field]))
    for chosen in product(*(values[field] for field in order)):
        known = dict(zip(order, chosen, strict=True))
        yield {field: known[field] for field in values}


def _is_scale(values: Sequence[Any]) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _drawn(
    config: type[Config], base: Mapping[str, Any], draw: Draw, seeds: int
) -> tuple[dict[str, tuple[Any, ...]], list[dict[str, Any]]]:
    """Return the values of each field of a draw, numbers sorted, and the combinations in the order drawn."""
    if SEED in draw.over:
        raise _seed_is_no_field()
    _raise_size([draw.count, seeds])
    firsts = combinations(config, base, draw)
    columns = {field: list(dict.fromkeys(chosen[field] for chosen in firsts)) for field in draw.over}
    return {field: tuple(sorted(found) if _is_scale(found) else found) for field, found in columns.items()}, firsts


def _seed_is_no_field() -> ConfigError:
    return ConfigError(
        [Problem(SEED, "seed can't be a varied field: give the number of seeds, which count up from the form's seed.")]
    )


def _raise_broken(config: type[Config], base: Mapping[str, Any], combinations: Sequence[Mapping[str, Any]]) -> None:
    """Raise one ConfigError for all invalid combinations; an error that all share is reported once, without names."""
    broken: dict[str, tuple[Problem, ...]] = {}
    for values in combinations:
        try:
            config.check({**base, **values})
        except ConfigError as error:
            broken[values_in_words(values)] = error.problems
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
            Problem("", f"{left} more of the {len(combinations)} combinations {'is' if left == 1 else 'are'} invalid.")
        )
    raise ConfigError(problems)
