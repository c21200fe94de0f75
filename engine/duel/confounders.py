"""What the methods of a duel do differently though their settings agree: the facts that no budget evens out. Torch-free
and pure.
"""

from dataclasses import dataclass
from math import lcm

from engine.config import Config
from engine.duel.methods import contender
from engine.duel.plan import config_of, pace_of
from engine.duel.spec import Duel


@dataclass(frozen=True)
class StrategyFacts:
    """What is to be known of one strategy beside the others."""

    name: str
    processes: int
    data: str
    momentum: str
    samples: int
    """Samples whose gradients make one update."""
    updates: float
    """Updates of the model in one pass."""
    bytes: float | None
    """Bytes between processes in one pass, None where none travel."""
    length: str
    """How long its runs are."""
    tested_every: float
    """Passes from one test to the next."""
    tests: str


def facts(duel: Duel) -> list[StrategyFacts]:
    """Return the facts of each strategy; raises ConfigError where a config breaks a rule."""
    return [
        _facts(one.name, one.experiment, config_of(duel, one, duel.rates[0], duel.first_seed))
        for one in duel.strategies
    ]


def untimely(duel: Duel) -> list[str]:
    """Return which strategies a budget of passes does not meet at a test, and the budget that would, in sentences; none
    for other budgets.
    """
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
    told = "; ".join(
        f"{name} at {every * (duel.budget.amount // every):.4g}, being tested every {every:.4g}"
        for name, every in late.items()
    )
    whole = [round(every) for every in paces.values()]
    cure = ""
    if all(abs(every - one) < 1e-6 for every, one in zip(paces.values(), whole, strict=True)):
        together = lcm(*whole)
        cure = f" A budget of {together * max(1, round(duel.budget.amount / together))} passes meets all at a test."
    return [
        (
            f"Not all are tested at {duel.budget.amount:g} passes: {told}. Each is judged by its last test within "
            f"the budget.{cure}"
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
