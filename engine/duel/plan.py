"""Plan the runs of a duel: configs long enough for the budget, with strategies in alternating order. Torch-free."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.config import Config, bound_of
from engine.duel.methods import contender, pace
from engine.duel.spec import SHARED, Duel, Strategy
from engine.errors import ConfigError, Problem
from engine.experiment.definition import Pace
from engine.registry import experiment
from engine.store.sweeps.duels import Stage

MOST_PASSES = 1_000
"""Length of runs with a budget of seconds; the runner ends them once it is spent."""
_ALIKE: Mapping[str, Any] = {
    "schedule": "constant",
    "checkpoint_every_s": 0.0,
    "evaluate_every": 1,
}
"""Settings fixed for every method that has them."""


@dataclass(frozen=True)
class DuelCell:
    """One run of a duel."""

    strategy: int
    """Index of the strategy."""
    stage: Stage
    rate: float
    seed: int
    config: Config


def config_of(duel: Duel, one: Strategy, rate: float, seed: int) -> Config:
    """Return the config of one run; raises ConfigError, with the strategy's name, for an invalid setting."""
    known = experiment(one.experiment).config
    fields = known.model_fields
    shared = {name: duel.shared[name] for name in SHARED if name in duel.shared and name in fields}
    alike = {name: value for name, value in _ALIKE.items() if name in fields}
    usual = {name: info.default for name, info in fields.items()}
    alike |= contender(one.experiment).given({**usual, **shared, **alike, **one.settings})
    values = {**shared, **alike, **one.settings, "learning_rate": rate, "seed": seed}
    try:
        first = known.check(values)
        field = contender(one.experiment).length
        return known.check({**values, field: _length(duel, pace(one.experiment, first), field, known)})
    except ConfigError as error:
        raise ConfigError(
            Problem(problem.field, f"{one.name}: {problem.sentence}") for problem in error.problems
        ) from None


def pace_of(duel: Duel, one: Strategy) -> Pace:
    """Return the pace of a strategy; raises the same as `config_of`."""
    return pace(one.experiment, config_of(duel, one, duel.rates[0], duel.first_seed))


def tuning_cells(duel: Duel) -> list[DuelCell]:
    """Return the tuning runs: every strategy with every learning rate, seed by seed."""
    return list(_cells(duel, "tuning", dict.fromkeys(range(len(duel.strategies)), duel.rates), duel.tuning))


def judging_cells(duel: Duel, rates: Sequence[float]) -> list[DuelCell]:
    """Return the evaluation runs; `rates` has one learning rate per strategy."""
    return list(_cells(duel, "judging", {place: (rate,) for place, rate in enumerate(rates)}, duel.judging))


def _cells(duel: Duel, stage: Stage, rates: Mapping[int, Sequence[float]], seeds: Sequence[int]) -> Iterator[DuelCell]:
    """Yield cells, seeds outermost and strategies innermost; the first strategy rotates, so that order favours none."""
    turn = 0
    for seed in seeds:
        for number in range(len(rates[0])):
            order = [(place + turn) % len(rates) for place in range(len(rates))]
            for place in order:
                rate = rates[place][number]
                yield DuelCell(place, stage, rate, seed, config_of(duel, duel.strategies[place], rate, seed))
            turn += 1


def _length(duel: Duel, found: Pace, field: str, known: type[Config]) -> int:
    """Return the value of the length `field`; raises ConfigError where the budget can't be met."""
    kind, amount = duel.budget.kind, duel.budget.amount
    if kind == "bytes" and found.bytes is None:
        raise ConfigError(
            [
                Problem(
                    "budget",
                    (
                        "budget must be in passes, updates or seconds; got bytes. The method exchanges no data "
                        "between processes."
                    ),
                )
            ]
        )
    length = found.units("passes", MOST_PASSES) if kind == "seconds" else found.units(kind, amount)
    most = bound_of(known.model_fields[field], "le")
    assert length is not None
    if most is not None and length > most:
        raise ConfigError(
            [
                Problem(
                    "budget",
                    (
                        f"{field} must be at most {most:,.12g}; {amount:,.12g} {kind} needs {length:,}. "
                        "Use a smaller budget."
                    ),
                )
            ]
        )
    return length
