"""What a duel is: strategies, what they share, the budget, the grid of learning rates, seeds, and what is judged.
Torch-free.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from engine.config_values import MOST_RUNS
from engine.duel.methods import contender, methods
from engine.errors import ConfigError, Problem, UnknownName
from engine.experiment.contender import KINDS, Kind
from engine.registry import experiment

MOST_STRATEGIES, MOST_RATES, MOST_SEEDS = 6, 9, 50
METRICS = ("test/accuracy", "test/loss")
SHARED = ("dataset", "batch_size", "trainers", "momentum", "threads_per_rank", "device")
"""Settings that all strategies share, as far as they have them."""
_OF_THE_DUEL: Mapping[str, str] = {
    "seed": "the duel gives every strategy the same seeds",
    "learning_rate": "it is tuned by the duel's grid",
    "schedule": "a rate that falls to the run's end would depend on what lies beyond the budget",
    "evaluate_every": "all are tested as often as they can be",
    "checkpoint_every_s": "all keep no checkpoints, which cost time",
    "variant": "the tutorials' code does not test on its way",
    "model": "all train the same net",
}
"""Settings that no strategy may have of its own, and why; beside those that say how long a run is."""
GAP = 100
"""How far seeds lie apart. Part of every stored plan: duels of the time when rank r drew from seed + r needed it, and
are still read by it.
"""
TUNING_FROM = 1_000
"""The place of the first seed of tuning, in gaps; those that judge come before it, so that no run is in both."""
TIES: Mapping[str, float] = {"test/accuracy": 0.3, "test/loss": 0.01}


@dataclass(frozen=True)
class Strategy:
    """One side of a duel."""

    name: str
    experiment: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What it has beside what all share."""


@dataclass(frozen=True)
class Budget:
    """What every run may spend."""

    kind: Kind
    amount: float


@dataclass(frozen=True)
class Duel:
    """All that makes a duel."""

    strategies: tuple[Strategy, ...]
    budget: Budget
    shared: Mapping[str, Any] = field(default_factory=dict)
    rates: tuple[float, ...] = (0.01, 0.03, 0.1)
    tuning_seeds: int = 2
    seeds: int = 5
    first_seed: int = 0
    metric: str = "test/accuracy"
    target: float | None = None
    """Value to be reached; None for the hardest that every judged run reached within its budget."""
    tie: float | None = None
    """Differences up to this count as none; None for the metric's usual one."""
    alone: bool = True
    """Whether each run has the machine to itself; with a budget of seconds it always has."""

    @property
    def margin(self) -> float:
        """The difference that counts as none."""
        return TIES[self.metric] if self.tie is None else self.tie

    @property
    def exclusive(self) -> bool:
        return self.alone or self.budget.kind == "seconds"

    @property
    def judging(self) -> tuple[int, ...]:
        """The seeds of the runs that are judged."""
        return tuple(self.first_seed + GAP * place for place in range(self.seeds))

    @property
    def tuning(self) -> tuple[int, ...]:
        """The seeds of the runs that tune."""
        return tuple(self.first_seed + GAP * (TUNING_FROM + place) for place in range(self.tuning_seeds))

    def as_json(self) -> dict[str, Any]:
        """Return it as the store keeps it."""
        return asdict(self)

    def checked(self) -> "Duel":
        """Return itself; raises ConfigError with a sentence for each rule that is broken, whatever the strategies' own
        configs say.
        """
        if problems := [*_of_numbers(self), *_of_strategies(self.strategies)]:
            raise ConfigError(problems)
        return self


def of_the_duel() -> dict[str, str]:
    """Return the settings that no strategy may have of its own, and why."""
    lengths = {contender(name).length: "the budget says how long a run is" for name in methods()}
    return {**_OF_THE_DUEL, **lengths}


def from_json(found: Mapping[str, Any]) -> Duel:
    """Return a duel as the store keeps it."""
    strategies = tuple(Strategy(**each) for each in found["strategies"])
    return Duel(
        **{**found, "strategies": strategies, "budget": Budget(**found["budget"]), "rates": tuple(found["rates"])}
    )


def _of_numbers(duel: Duel) -> Iterator[Problem]:
    if duel.budget.kind not in KINDS:
        yield Problem("budget", f"A budget is in {', '.join(KINDS)}, got '{duel.budget.kind}'.")
    if not 0 < duel.budget.amount < 1e15:
        yield Problem("budget", f"A budget must be above 0 {duel.budget.kind}, got {duel.budget.amount:g}.")
    if duel.metric not in METRICS:
        yield Problem("metric", f"A duel is judged by {' or '.join(METRICS)}, got '{duel.metric}'.")
    elif duel.margin < 0:
        yield Problem("tie", f"The difference that counts as none must be at least 0, got {duel.margin:g}.")
    for name, count, most in (("seeds", duel.seeds, MOST_SEEDS), ("tuning_seeds", duel.tuning_seeds, MOST_SEEDS)):
        if not 1 <= count <= most:
            yield Problem(name, f"{name} must be from 1 to {most}, got {count}.")
    if not 0 <= duel.first_seed <= 2**30:
        yield Problem("first_seed", f"The first seed must be from 0 to {2**30:,}, got {duel.first_seed}.")
    yield from _of_rates(duel.rates)
    if (runs := len(duel.strategies) * (len(duel.rates) * duel.tuning_seeds + duel.seeds)) > MOST_RUNS:
        yield Problem("", f"A duel may have at most {MOST_RUNS} runs, got {runs:,}. Give fewer rates or seeds.")


def _of_rates(rates: Sequence[float]) -> Iterator[Problem]:
    if not 1 <= len(rates) <= MOST_RATES:
        yield Problem("rates", f"The grid has 1 to {MOST_RATES} learning rates, got {len(rates) or 'none'}.")
    if list(rates) != sorted(set(rates)):
        told = ", ".join(f"{rate:g}" for rate in rates)
        yield Problem("rates", f"The grid's learning rates rise and each stands there once, got {told}.")


def _of_strategies(strategies: Sequence[Strategy]) -> Iterator[Problem]:
    if not 2 <= len(strategies) <= MOST_STRATEGIES:
        yield Problem("strategies", f"A duel has 2 to {MOST_STRATEGIES} strategies, got {len(strategies) or 'none'}.")
    names = [each.name for each in strategies]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield Problem("strategies", f"Two strategies are called '{name}'. Give each a name of its own.")
    for each in strategies:
        if not 1 <= len(each.name.strip()) <= 60:
            yield Problem("strategies", f"A strategy's name has 1 to 60 characters, got '{each.name}'.")
        yield from _of_settings(each)
    same = [
        each
        for place, each in enumerate(strategies)
        if any((each.experiment, each.settings) == (other.experiment, other.settings) for other in strategies[:place])
    ]
    for each in same:
        yield Problem(
            "strategies",
            f"'{each.name}' has the same experiment and settings as another strategy, so nothing could set them apart.",
        )


def _of_settings(one: Strategy) -> Iterator[Problem]:
    if one.experiment not in methods():
        yield from UnknownName("method that can duel", one.experiment, methods(), field="strategies").problems
        return
    fields, barred = experiment(one.experiment).config.model_fields, of_the_duel()
    for name in one.settings:
        if name in barred:
            yield Problem("strategies", f"{one.name}: {name} can't be a strategy's own: {barred[name]}.")
        elif name not in fields:
            yield from (
                Problem("strategies", f"{one.name}: {each.sentence}")
                for each in UnknownName("setting", name, fields).problems
            )
