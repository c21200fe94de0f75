"""Uncontrolled differences between the methods of a duel, which the budget cannot equalise. Torch-free and pure."""

from dataclasses import dataclass
from math import lcm

from engine.config import Config
from engine.duel.methods import contender
from engine.duel.plan import config_of, pace_of
from engine.duel.spec import Duel


@dataclass(frozen=True)
class StrategyFacts:
    """Uncontrolled properties of one strategy."""

    name: str
    processes: int
    data: str
    momentum: str
    samples: int
    """Samples per update."""
    updates: float
    """Model updates per pass."""
    bytes: float | None
    """Bytes exchanged between processes per pass; None for methods that exchange none."""
    length: str
    """Length of its runs."""
    tested_every: float
    """Passes between two tests."""
    tests: str


def facts(duel: Duel) -> list[StrategyFacts]:
    """Return the facts of each strategy; raises ConfigError for an invalid config."""
    return [
        _facts(one.name, one.experiment, config_of(duel, one, duel.rates[0], duel.first_seed))
        for one in duel.strategies
    ]


def untimely(duel: Duel) -> list[str]:
    """Return a warning where a budget of passes doesn't end at a test of every strategy, with a budget that does."""
    if duel.budget.kind != "passes":
        return []
    paces = {one.name: pace_of(duel, one).passes for one in duel.strategies}
    late = {
        name: every
        for name, every in paces.items()
        if abs(duel.budget.amount / every - round(duel.budget.amount / every)) > 1e-6
    }
    if not late:
        return []
    listed = "; ".join(
        f"{name} at {every * (duel.budget.amount // every):.4g} (every {every:.4g})" for name, every in late.items()
    )
    whole = [round(every) for every in paces.values()]
    cure = ""
    if all(abs(every - one) < 1e-6 for every, one in zip(paces.values(), whole, strict=True)):
        together = lcm(*whole)
        cure = f" Use {together * max(1, round(duel.budget.amount / together))} passes to test all at the budget's end."
    return [
        (
            f"Some strategies have no test at {duel.budget.amount:,.12g} passes. Last test: {listed}. The last test "
            f"within the budget counts.{cure}"
        )
    ]


def _facts(name: str, experiment: str, config: Config) -> StrategyFacts:
    known, length = contender(experiment), contender(experiment).length
    found, values = known.pace(config), config.model_dump()
    return StrategyFacts(
        name,
        len(config.roles),
        known.data,
        known.momentum(config),
        values["batch_size"] * known.gradients(config),
        found.updates,
        found.bytes,
        f"{values[length]:,} {length}",
        found.passes,
        known.tests,
    )
