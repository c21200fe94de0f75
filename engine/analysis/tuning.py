"""Selection of a strategy's learning rate: the best mean result within the budget over the tuning seeds. Torch-free and
pure.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from math import isfinite
from typing import Literal

Better = Literal["max", "min"]
Edge = Literal["", "least", "largest"]
DIGITS = 3


@dataclass(frozen=True)
class Spent:
    """One test of a run: the budget spent at that point, and the result."""

    spent: float
    time_s: float
    value: float


@dataclass(frozen=True)
class TunedRate:
    """The selected learning rate, and the mean result of each candidate."""

    rate: float
    means: Mapping[float, float]
    edge: Edge
    """Whether it is at an end of the grid, so that a better one may lie outside."""
    level: tuple[float, ...] = ()
    """Other rates with exactly the same mean; the smallest of all was selected."""


def easier(value: float, better: Better) -> float:
    """Return the hardest target of three figures that a run with this value has reached."""
    if not value or not isfinite(value):
        return value
    exact = Decimal(repr(value))
    return float(
        exact.quantize(
            Decimal(1).scaleb(exact.adjusted() - DIGITS + 1), ROUND_FLOOR if better == "max" else ROUND_CEILING
        )
    )


def at_budget(tests: Iterable[Spent], amount: float) -> Spent | None:
    """Return the last test within a budget, None if there is none."""
    return max((test for test in tests if test.spent <= amount * (1 + 1e-9)), key=lambda test: test.spent, default=None)


def choose(rates: Sequence[float], values: Mapping[float, Sequence[float | None]], better: Better) -> TunedRate | None:
    """Return the rate with the best mean; None without candidates.

    `values` has one value per tuning seed for each rate; a rate with a missing value (failed run) or a non-finite value
    is not a candidate.
    """
    means = {
        rate: sum(known) / len(known)
        for rate in rates
        if (found := values.get(rate))
        and len(known := [value for value in found if value is not None and isfinite(value)]) == len(found)
    }
    if not means:
        return None
    best = (max if better == "max" else min)(means.values())
    level = [rate for rate in rates if means.get(rate) == best]
    return TunedRate(level[0], means, _edge(level[0], rates), tuple(level[1:]))


def _edge(rate: float, rates: Sequence[float]) -> Edge:
    if len(rates) < 2:
        return ""
    return "least" if rate == min(rates) else "largest" if rate == max(rates) else ""
