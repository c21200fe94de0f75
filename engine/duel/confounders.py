"""What the methods of a duel do differently though their settings agree: the facts that no budget evens out. Torch-free
and pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import lcm

from engine.config import Config
from engine.duel.budget import pace
from engine.duel.plan import config_of, pace_of
from engine.duel.spec import Duel

_DATA = {
    "reference": "the whole set",
    "hogwild": "each trainer the whole set, in an order of its own",
    "parameter_server": "a part of the set for each trainer",
    "async_sgd": "a part of the set for each trainer",
    "sync_sgd": "a part of the set for each trainer",
}
_MOMENTUM = {
    "reference": "one",
    "hogwild": "one for each trainer",
    "parameter_server": "one, the server's",
    "async_sgd": "one, the server's",
    "sync_sgd": "one for each trainer, begun anew each round",
}
_TESTS = {
    "reference": "by the trainer, which stops for it",
    "hogwild": "by trainer1, which stops for it; the others train on",
    "parameter_server": "by the server, while all train on",
    "async_sgd": "by the server, while all train on",
    "sync_sgd": "by trainer1, which the others wait for at the next round's end",
}


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
    found, values = pace(experiment, config), config.model_dump()
    kept: Mapping[str, str] = {
        **_MOMENTUM,
        **({"sync_sgd": "one for each trainer"} if values.get("keep_optimizer") else {}),
    }
    return StrategyFacts(
        name,
        len(config.roles),
        _DATA[experiment],
        kept[experiment],
        values["batch_size"] * _gradients(experiment, values),
        found.updates,
        found.bytes,
        f"{values[found.field]:,} {found.field}",
        found.passes,
        _TESTS[experiment],
    )


def _gradients(experiment: str, values: Mapping[str, object]) -> int:
    """Return the gradients that make one update."""
    if experiment == "parameter_server":
        return int(str(values["batch_update_size"]))
    return int(str(values["trainers"])) if experiment == "sync_sgd" and values["sync"] in ("gradients", "ddp") else 1
