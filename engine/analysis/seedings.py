"""Which runs are paired by seed, and whether runs use the same seeding rule (engine/seeding.py): runs with different
rules are not repetitions of each other. Torch-free.
"""

from collections.abc import Iterable
from typing import Any

from engine.store.records import RunRow
from engine.store.sweeps.sweeps import SEED

MOST_NAMED = 6


def block_of(run: RunRow) -> tuple[int, Any]:
    """Return the rule and seed of a run: runs of one experiment with the same ones share initialization and data
    order, so they are compared with each other (a block).
    """
    return run.seeding, run.config.get(SEED)


def mixture(runs: Iterable[RunRow]) -> str:
    """Return a caution if runs use different seeding rules, else an empty string."""
    by_rule: dict[int, list[int]] = {}
    for run in sorted(runs, key=lambda run: run.id):
        by_rule.setdefault(run.seeding, []).append(run.id)
    if len(by_rule) < 2:
        return ""
    said = "; ".join(f"seeding {rule}: {_named(ids)}" for rule, ids in sorted(by_rule.items()))
    return f"The runs use different seeding rules ({said}), so they are not repetitions of each other."


def _named(ids: list[int]) -> str:
    some = ", ".join(map(str, ids[:MOST_NAMED])) + (
        f" and {len(ids) - MOST_NAMED} more" if len(ids) > MOST_NAMED else ""
    )
    return f"{'run' if len(ids) == 1 else 'runs'} {some}"
