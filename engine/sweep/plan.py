"""Sweep plans: the runs of one experiment over values of up to two fields, times seeds. Torch-free."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from math import floor, gcd, lcm, prod
from typing import Any

from engine.analysis.total_work import unreached_of
from engine.config import Config
from engine.config_values import MOST_RUNS, checked, values_in_words
from engine.errors import ConfigError, Problem, UnknownName
from engine.experiment import Experiment, Work
from engine.registry import definition, known_experiment
from engine.script.settings import for_sweep
from engine.store import SweepLaunch
from engine.store.launches import Draw
from engine.store.sweeps.sweeps import SEED
from engine.sweep.random_search import combinations

MOST_FIELDS = 2
MOST_SENTENCES = 3
"""Number of invalid combinations that are named; the others are counted."""


@dataclass(frozen=True)
class SweepCell:
    """One planned run: the values of the varied fields, the seed last, and its whole config."""

    values: Mapping[str, Any]
    config: Config


@dataclass(frozen=True)
class Plan:
    """A sweep before its launch: its runs in queue order."""

    grid: Mapping[str, tuple[Any, ...]]
    """The values of each varied field, the seed last."""
    cells: tuple[SweepCell, ...]


def with_seeds(asked: SweepLaunch) -> SweepLaunch:
    """Return a sweep whose settings have a `seed`: of a command, the setting that takes the seeds gets this name.
    Raises UnknownName, ConfigError for a setting that can't take them.
    """
    shared, chosen = asked.shared, asked.seed_field
    if shared.command is None:
        if chosen not in ("", SEED):
            raise ConfigError.of(
                "seed_field", f"{shared.experiment} takes the seeds as its setting seed, got {chosen}."
            )
        return asked
    command, before = for_sweep(shared.command, chosen), chosen or shared.command.seed_field
    if before in (asked.draw.over if asked.draw else asked.grid):
        raise _seed_is_no_field(before)
    config = {SEED if name == before else name: value for name, value in shared.config.items()}
    if config.get(SEED, 0) is None:  # seeds then count up from 0
        del config[SEED]
    return replace(asked, shared=replace(shared, command=command, config=config), seed_field="")


def plan(asked: SweepLaunch) -> Plan:
    """Return the runs of a sweep, seeds outermost: the whole curve exists after the first seed, and compared values run
    close together.

    Seeds count up from the shared settings' seed. A draw replaces the grid. In an exclusive sweep, non-numeric fields
    change fastest (A B A B), so that a temporary slowdown affects all modes equally. With equal work each combination
    has the length for which its total work is that of the shared settings, varied fields included. Raises UnknownName,
    and ConfigError that names the combination.
    """
    asked = with_seeds(asked)
    found, base, seeds = definition(asked.shared), asked.shared.config, asked.seeds
    config = found.config
    first_seed = config.check_field(SEED, base.get(SEED, config.model_fields[SEED].default))
    if asked.draw:
        values, firsts = _drawn(config, base, asked.draw, seeds)
    else:
        values = {field: _varied(config, field, written) for field, written in asked.grid.items()}
        _check_size(values, seeds)
        firsts = list(_combinations(values, interleaved=asked.is_exclusive))
        _raise_broken(config, base, firsts)
    lengths = equal_lengths(found, base, firsts) if asked.equal_work else [{} for _ in firsts]
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
    known = known_experiment(name)
    return unreached_of(known, cells, limit_s) if known else []


def _varied(config: type[Config], field: str, written: Sequence[Any]) -> tuple[Any, ...]:
    if field == SEED:
        raise _seed_is_no_field()
    if list in config.value_types().get(field, ()):
        raise ConfigError.of(field, f"{field} is a list, which can't be varied. Vary a setting with one value.")
    if field not in config.model_fields:
        raise UnknownName("setting", field, config.model_fields, field=field)
    return checked(config, field, written)


def _check_size(values: Mapping[str, Sequence[Any]], seeds: int) -> None:
    if not values and seeds == 1:
        raise ConfigError.of(
            "", "A sweep must vary a setting or have more than one seed, got neither. Choose a setting, or more seeds."
        )
    if len(values) > MOST_FIELDS:
        raise ConfigError.of(
            "",
            f"A sweep must vary at most {MOST_FIELDS} settings, got {len(values)}: {', '.join(values)}. Leave out "
            f"{len(values) - MOST_FIELDS} of them.",
        )
    _raise_size([*(len(found) for found in values.values()), seeds])


def _raise_size(counts: Sequence[int]) -> None:
    """Raise ConfigError if the product of the counts, the seeds last, exceeds the limit of runs per sweep."""
    if counts[-1] < 1:
        raise ConfigError.of("seeds", f"seeds must be at least 1, got {counts[-1]}.")
    if prod(counts) > MOST_RUNS:
        product = f"{' x '.join(map(str, counts))} = {prod(counts):,}"
        raise ConfigError.of(
            "", f"A sweep may have at most {MOST_RUNS} runs, got {product}. Give fewer values or seeds."
        )


def _combinations(values: Mapping[str, Sequence[Any]], interleaved: bool) -> Iterator[dict[str, Any]]:
    """Yield all combinations, the last field changing fastest; `interleaved` puts non-numeric fields last."""
    order = sorted(values, key=lambda field: interleaved and not is_numeric(values[field]))
    for chosen in product(*(values[field] for field in order)):
        known = dict(zip(order, chosen, strict=True))
        yield {field: known[field] for field in values}


def is_numeric(values: Sequence[Any]) -> bool:
    """Return whether all values are numbers."""
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
    return {field: tuple(sorted(found) if is_numeric(found) else found) for field, found in columns.items()}, firsts


def _seed_is_no_field(name: str = SEED) -> ConfigError:
    sentence = f"{name} can't be a varied field: give the number of seeds, which count up from the form's {name}."
    return ConfigError.of(name, sentence)


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


# ---- Equal total work in a sweep: the length of each combination, for which all do as much as one config -----------
# Torch-free.


def equal_lengths(
    found: Experiment, base: Mapping[str, Any], combinations: Sequence[Mapping[str, Any]]
) -> list[dict[str, int]]:
    """Return the setting of the length, with its value, of each combination: the total work is that of `base`.

    Raises ConfigError for an experiment without counted work, for a sweep over the length itself or over what counts
    it, and where no whole number does, with the nearest totals that do.
    """
    if found.work is None:
        raise ConfigError.of(
            "", f"{found.title} counts no work that could be equal. Launch the sweep without equal work."
        )
    config = found.config.check(base)
    whole = found.work(config)
    every = [found.work(found.config.check({**base, **values})) for values in combinations]
    if any(whole.length in values for values in combinations):
        raise ConfigError.of(
            whole.length,
            f"{whole.length} can't vary in a sweep with equal total work, which sets it. Vary another setting, or turn "
            "off equal work.",
        )
    if odd := next((work for work in every if (work.length, work.unit) != (whole.length, whole.unit)), None):
        raise ConfigError.of(
            "",
            f"Total work can't be equal: one combination counts {odd.unit} by {odd.length}, another {whole.unit} by "
            f"{whole.length}. Turn off equal work.",
        )
    paces = [_pace(found, base, values, work) for values, work in zip(combinations, every, strict=True)]
    lengths = [Fraction(whole.amount) / pace for pace in paces]
    broken = next((at for at, length in enumerate(lengths) if length.denominator > 1), None)
    if broken is not None:
        raise ConfigError.of(
            whole.length, _why_not(config, whole, paces, values_in_words(combinations[broken]), lengths[broken])
        )
    return [{whole.length: int(length)} for length in lengths]


def settings_of_work(found: Experiment, base: Mapping[str, Any], fields: Sequence[str]) -> dict[str, Any]:
    """Return the settings of `base` that define the total work of a sweep over `fields`: its length, and theirs."""
    assert found.work is not None
    config = found.config.check(base)
    return {name: getattr(config, name) for name in (found.work(config).length, *fields)}


def _pace(found: Experiment, base: Mapping[str, Any], values: Mapping[str, Any], work: Work) -> Fraction:
    """Return the units of work of one unit of length."""
    return Fraction(work.amount, getattr(found.config.check({**base, **values}), work.length))


def _why_not(config: Config, whole: Work, paces: Sequence[Fraction], which: str, length: Fraction) -> str:
    """Return which combination breaks the rule, and the nearest lengths of the form's config that don't."""
    now = getattr(config, whole.length)
    step = _multiple([*paces, Fraction(whole.amount, now)]) / Fraction(whole.amount, now)
    below = floor(now / step) * step
    nearest = [int(each) for each in (below, below + step) if each > 0]
    totals = [_in_words(whole, Fraction(each, now)) for each in nearest]
    return (
        f"{whole.length} must be a whole number for equal total work, got {float(length):.4g} with {which}, for "
        f"{_in_words(whole, Fraction(1))} in each run. Set {whole.length} to "
        f"{' or '.join(f'{each} ({total})' for each, total in zip(nearest, totals, strict=True))}."
    )


def _in_words(whole: Work, share: Fraction) -> str:
    """Return a share of the work in passes, or in its unit."""
    return whole.share(float(share)).shortly()


def _multiple(paces: Sequence[Fraction]) -> Fraction:
    """Return the least amount of which each pace is a whole part."""
    return Fraction(
        lcm(*(pace.numerator for pace in paces)),
        gcd(*(pace.denominator for pace in paces)),
    )
