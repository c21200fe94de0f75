"""Equal total work in a sweep: the length of each combination, for which all do as much as one config. Torch-free."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import floor, gcd, lcm
from typing import Any

from engine.config import Config
from engine.config_values import values_in_words
from engine.errors import ConfigError, Problem
from engine.experiment.definition import Experiment, Work


def equal_lengths(
    found: Experiment, base: Mapping[str, Any], combinations: Sequence[Mapping[str, Any]]
) -> list[dict[str, int]]:
    """Return the setting of the length, with its value, of each combination: the total work is that of `base`.

    Raises ConfigError for an experiment without counted work, for a sweep over the length itself or over what counts
    it, and where no whole number does, with the nearest totals that do.
    """
    if found.work is None:
        raise _refused("", f"{found.title} counts no work that could be equal. Launch the sweep without equal work.")
    config = found.config.check(base)
    whole = found.work(config)
    every = [found.work(found.config.check({**base, **values})) for values in combinations]
    if any(whole.length in values for values in combinations):
        raise _refused(
            whole.length,
            f"{whole.length} can't vary in a sweep with equal total work, which sets it. Vary another setting, or turn "
            "off equal work.",
        )
    if odd := next((work for work in every if (work.length, work.unit) != (whole.length, whole.unit)), None):
        raise _refused(
            "",
            f"Total work can't be equal: one combination counts {odd.unit} by {odd.length}, another {whole.unit} by "
            f"{whole.length}. Turn off equal work.",
        )
    paces = [_pace(found, base, values, work) for values, work in zip(combinations, every, strict=True)]
    lengths = [Fraction(whole.amount) / pace for pace in paces]
    broken = next((at for at, length in enumerate(lengths) if length.denominator > 1), None)
    if broken is not None:
        raise _refused(
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


def _refused(field: str, sentence: str) -> ConfigError:
    return ConfigError([Problem(field, sentence)])
