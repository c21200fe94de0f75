"""The specification of a duel: strategies by name, shared settings, budget, learning-rate grid, seeds."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from pydantic.fields import FieldInfo

from engine.config import Config, read_settings
from engine.config_values import MOST_RUNS
from engine.errors import ConfigError, Problem, UnknownName
from engine.experiment import KINDS, Contender, Experiment, Kind, Pace
from engine.own_methods.cards import CODE
from engine.registry import experiment, experiments, own_experiments

# ---- Specification of a duel: strategies, shared settings, budget, learning-rate grid, seeds and metric ------------
# Torch-free.

MOST_STRATEGIES, MOST_RATES, MOST_SEEDS = 6, 9, 50
METRICS = ("test/accuracy", "test/loss")
SHARED = ("dataset", "batch_size", "trainers", "momentum", "threads_per_rank", "device")
"""Settings shared by all strategies that have them."""
_OF_THE_DUEL: Mapping[str, str] = {
    "seed": "all strategies use the duel's seeds",
    "learning_rate": "the duel tunes it on its grid",
    "schedule": "a decaying rate would depend on the run's length beyond the budget",
    "evaluate_every": "all strategies are tested as often as possible",
    "checkpoint_every_s": "checkpoints are disabled because they cost time",
    "variant": "the tutorials' code runs no tests during training",
    "model": "all strategies train the same network",
}
"""Settings that the duel controls, and why; the length settings are added by `of_the_duel`."""
GAP = 100
"""Distance between seeds. Stored plans depend on it: in older duels rank r drew from seed + r."""
TUNING_FROM = 1_000
"""Index of the first tuning seed, in gaps; evaluation seeds come before it, so that the two never overlap."""
READ_S = 10.0
"""Seconds that an unknown strategy waits for new experiments of the lab's own to be read."""
TIES: Mapping[str, float] = {"test/accuracy": 0.3, "test/loss": 0.01}


@dataclass(frozen=True)
class Strategy:
    """One side of a duel."""

    name: str
    experiment: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings in addition to the shared ones; of an experiment of the lab's own also the version of its code."""

    @property
    def definition(self) -> Experiment:
        """Its experiment; raises UnknownName, MethodFault."""
        return experiment(self.experiment, str(self.settings.get(CODE, "")))

    def pinned(self) -> "Strategy":
        """Return it with the version that the code of an experiment of the lab's own has now: that of all its runs."""
        code = self.definition.config.model_fields.get(CODE)
        return replace(self, settings={**self.settings, CODE: code.default}) if code else self


@dataclass(frozen=True)
class Budget:
    """The budget of each run."""

    kind: Kind
    amount: float


@dataclass(frozen=True)
class Duel:
    """Complete specification of a duel."""

    strategies: tuple[Strategy, ...]
    budget: Budget
    shared: Mapping[str, Any] = field(default_factory=dict)
    rates: tuple[float, ...] = (0.01, 0.03, 0.1)
    tuning_seeds: int = 2
    seeds: int = 5
    first_seed: int = 0
    metric: str = "test/accuracy"
    target: float | None = None
    """Target value; None for the hardest value that every evaluation run reached within its budget."""
    tie: float | None = None
    """Tie margin; None for the metric's default."""
    alone: bool = True
    """Whether runs are exclusive; always true with a budget of seconds."""

    @property
    def margin(self) -> float:
        """The tie margin."""
        return TIES[self.metric] if self.tie is None else self.tie

    @property
    def exclusive(self) -> bool:
        return self.alone or self.budget.kind == "seconds"

    @property
    def judging(self) -> tuple[int, ...]:
        """The seeds of the evaluation runs."""
        return tuple(self.first_seed + GAP * place for place in range(self.seeds))

    @property
    def tuning(self) -> tuple[int, ...]:
        """The seeds of the tuning runs."""
        return tuple(self.first_seed + GAP * (TUNING_FROM + place) for place in range(self.tuning_seeds))

    def as_json(self) -> dict[str, Any]:
        """Return its stored form."""
        return asdict(self)

    def checked(self) -> "Duel":
        """Return itself; raises ConfigError with one message per invalid setting. Doesn't check strategies' configs."""
        if problems := [*_of_numbers(self), *_of_strategies(self.strategies)]:
            raise ConfigError(problems)
        return self


def of_the_duel() -> dict[str, str]:
    """Return the settings that the duel controls, and why."""
    lengths = {contender(name).length: "the budget sets the length" for name in methods()}
    return {**_OF_THE_DUEL, **lengths}


def from_json(found: Mapping[str, Any]) -> Duel:
    """Return a duel from its stored form."""
    strategies = tuple(Strategy(**each) for each in found["strategies"])
    return Duel(
        **{**found, "strategies": strategies, "budget": Budget(**found["budget"]), "rates": tuple(found["rates"])}
    )


def _of_numbers(duel: Duel) -> Iterator[Problem]:
    if duel.budget.kind not in KINDS:
        yield Problem("budget", f"The budget must be in {', '.join(KINDS)}; got '{duel.budget.kind}'.")
    if not 0 < duel.budget.amount < 1e15:
        yield Problem("budget", f"The budget must be above 0 {duel.budget.kind}; got {duel.budget.amount:,.12g}.")
    if duel.metric not in METRICS:
        yield Problem("metric", f"metric must be {' or '.join(METRICS)}; got '{duel.metric}'.")
    elif duel.margin < 0:
        yield Problem("tie", f"The tie margin must be at least 0; got {duel.margin:g}.")
    for name, count, most in (("seeds", duel.seeds, MOST_SEEDS), ("tuning_seeds", duel.tuning_seeds, MOST_SEEDS)):
        if not 1 <= count <= most:
            yield Problem(name, f"{name} must be from 1 to {most}; got {count}.")
    if not 0 <= duel.first_seed <= 2**30:
        yield Problem("first_seed", f"first_seed must be from 0 to {2**30:,}; got {duel.first_seed}.")
    yield from _of_rates(duel.rates)
    if (runs := len(duel.strategies) * (len(duel.rates) * duel.tuning_seeds + duel.seeds)) > MOST_RUNS:
        yield Problem("", f"A duel can have at most {MOST_RUNS} runs; got {runs:,}. Reduce rates or seeds.")


def _of_rates(rates: Sequence[float]) -> Iterator[Problem]:
    if not 1 <= len(rates) <= MOST_RATES:
        yield Problem("rates", f"The grid must have 1 to {MOST_RATES} learning rates; got {len(rates) or 'none'}.")
    if list(rates) != sorted(set(rates)):
        listed = ", ".join(f"{rate:g}" for rate in rates)
        yield Problem("rates", f"Learning rates must be ascending and unique; got {listed}.")


def _of_strategies(strategies: Sequence[Strategy]) -> Iterator[Problem]:
    if not 2 <= len(strategies) <= MOST_STRATEGIES:
        yield Problem("strategies", f"A duel needs 2 to {MOST_STRATEGIES} strategies; got {len(strategies) or 'none'}.")
    names = [each.name for each in strategies]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield Problem("strategies", f"Strategy names must be unique; got '{name}' twice. Rename one.")
    for each in strategies:
        if not 1 <= len(each.name.strip()) <= 60:
            yield Problem("strategies", f"A strategy name must have 1 to 60 characters; got '{each.name}'.")
        yield from _of_settings(each)
    same = [
        each
        for place, each in enumerate(strategies)
        if any((each.experiment, each.settings) == (other.experiment, other.settings) for other in strategies[:place])
    ]
    for each in same:
        yield Problem(
            "strategies",
            f"'{each.name}' has the same experiment and settings as another strategy. Change a setting or remove it.",
        )


def _of_settings(one: Strategy) -> Iterator[Problem]:
    if one.experiment not in methods():
        yield from UnknownName("duel method", one.experiment, methods(), field="strategies").problems
        return
    fields, barred = one.definition.config.model_fields, of_the_duel()
    for name in one.settings:
        if name in barred:
            yield Problem("strategies", f"{one.name}: {name} can't be set per strategy: {barred[name]}.")
        elif name not in fields:
            yield from (
                Problem("strategies", f"{one.name}: {each.sentence}")
                for each in UnknownName("setting", name, fields).problems
            )


# ---- The registered experiments that support duels -----------------------------------------------------------------
# Torch-free.


def methods() -> tuple[str, ...]:
    """Return the names of the experiments that support duels, in table order."""
    return tuple(each.name for each in experiments() if each.duel)


def contender(of: str | Strategy) -> Contender:
    """Return the duel interface of an experiment, by name or of a strategy; raises KeyError where it has none."""
    name = of if isinstance(of, str) else of.experiment
    found = (experiment(name) if isinstance(of, str) else of.definition).duel
    if found is None:
        raise KeyError(name)
    return found


def pace(of: str | Strategy, config: Config) -> Pace:
    """Return the pace of an experiment's config; raises KeyError where it doesn't support duels."""
    return contender(of).pace(config)


# ------------------------------------------------------------------------------------------------------------------
# Predefined strategies by short name, and the syntax for custom ones: `hogwild`, `async_sgd:rule=plain`,
# `Locked=hogwild:lock=true`.


def ready() -> dict[str, Strategy]:
    """Return the predefined strategies by short name, in the order of the experiment table."""
    return {
        short: Strategy(each.title, name, each.settings)
        for name in methods()
        for short, each in contender(name).strategies.items()
    }


def read_strategy(text: str) -> Strategy:
    """Parse `[title=]name[:setting=value; ...]`, where `name` is a predefined strategy; raises ConfigError."""
    head, _, tail = text.partition(":")
    title, found, name = head.rpartition("=")
    name = name.strip()
    if name not in (offered := ready()):
        own_experiments(READ_S)  # one of the lab's own may be new
        offered = ready()
    if name not in offered:
        raise UnknownName("strategy", name, offered, field="strategies")
    base = offered[name]
    own = checked_settings(base, tail)
    settings = ", ".join(part.strip() for part in tail.split(";") if part.strip())
    usual = f"{base.name}, {settings}" if settings else base.name
    return Strategy(title.strip() if found else usual, base.experiment, {**base.settings, **own})


def shared_fields() -> Mapping[str, FieldInfo]:
    """Return the shared fields, from the first experiment that has all of them."""
    return _shared_config().model_fields


def read_shared(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the shared settings, with their fields' types; raises ConfigError for an unknown or invalid one."""
    for name in values:
        if name not in SHARED:
            raise UnknownName("shared setting", name, SHARED, field="shared")
    config = _shared_config()
    return {name: config.check_field(name, value) for name, value in values.items()}


def checked_settings(one: Strategy, text: str) -> dict[str, Any]:
    """Parse `lock=true; trainers=2` into values of their fields' types; raises ConfigError for a setting that the duel
    controls.
    """
    config, barred = experiment(one.experiment).config, of_the_duel()
    own: dict[str, Any] = {}
    for name, value in read_settings(part for part in text.split(";") if part.strip()).items():
        if name in barred:
            raise ConfigError.of("strategies", f"{one.name}: {name} can't be set per strategy: {barred[name]}.")
        own[name] = config.check_field(name, value)
    return own


def _shared_config() -> type[Config]:
    configs = [experiment(name).config for name in methods()]
    return next(config for config in configs if set(SHARED) <= set(config.model_fields))
