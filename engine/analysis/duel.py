"""Comparison of strategies seed by seed: paired differences with intervals, verdict, and time to a target. Torch-free
and pure.

A lead needs an interval on one side of 0 and a p-value of at most 0.05 after Holm's correction for the number of pairs:
among equal strategies, however many, a lead is reported in at most 5 % of duels.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from itertools import combinations
from math import isfinite
from typing import Literal

from engine.analysis.statistics.intervals import Interval, holm, mean_interval, p_of_no_difference
from engine.errors import enumeration

# ------------------------------------------------------------------------------------------------------------------
# Selection of a strategy's learning rate: the best mean result within the budget over the tuning seeds. Torch-free
# and pure.

Better = Literal["max", "min"]
Edge = Literal["", "least", "largest"]


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


# ---- Duel ----------------------------------------------------------------------------------------------------------

Outcome = Literal["ahead", "behind", "level", "open", "too few seeds", "failed runs"]
FEWEST = 5
"""Minimum number of pairs for a verdict: 4 differences without a cause have the same sign in 1 of 8 duels."""
ERROR = 0.05
"""Family-wise error rate of a false lead, over all pairs."""
DIGITS = 3


@dataclass(frozen=True)
class Difference:
    """The values of one strategy minus another's, seed by seed."""

    first: str
    second: str
    by_seed: Mapping[int, float]
    outcome: Outcome
    """The outcome of the first compared with the second."""
    found: Interval | None = None
    """Their mean with its 95 % interval; None if no seed has both."""
    p: float | None = None
    """The p-value of no difference, corrected for the number of pairs; None with too few seeds."""


@dataclass(frozen=True)
class StrategyTarget:
    """How one strategy reached a target within the budget."""

    name: str
    runs: int
    spent: Mapping[int, float]
    """The budget spent at the first test that met the target, by seed; seeds that never reached it are absent."""
    time_s: Mapping[int, float]


def differences(values: Mapping[str, Mapping[int, float]], better: Better, margin: float) -> list[Difference]:
    """Return the difference of each pair of strategies; `values` has each one's values by seed, differences up to
    `margin` count as none.
    """
    found = [_difference(one, values[one], other, values[other]) for one, other in combinations(values, 2)]
    known = [each for each in found if len(each.by_seed) >= FEWEST]
    corrected = holm([p_of_no_difference([*each.by_seed.values()]) for each in known])
    judged = {id(each): _judged(each, p, better, margin) for each, p in zip(known, corrected, strict=True)}
    return [judged.get(id(each), each) for each in found]


def _difference(first: str, ours: Mapping[int, float], second: str, theirs: Mapping[int, float]) -> Difference:
    """Return the difference over the common seeds, without an outcome."""
    by_seed = {seed: ours[seed] - theirs[seed] for seed in sorted({*ours} & {*theirs})}
    return Difference(first, second, by_seed, "too few seeds", mean_interval([*by_seed.values()]) if by_seed else None)


def _judged(each: Difference, p: float, better: Better, margin: float) -> Difference:
    """Return a difference with its outcome: level if the whole interval is within the margin, even if the difference
    has a sign.
    """
    assert each.found is not None
    side = 0 if p > ERROR else each.found.side(0.0)
    if -margin <= each.found.low and each.found.high <= margin:
        outcome: Outcome = "level"
    else:
        outcome = {1: "ahead", -1: "behind", 0: "open"}[side if better == "max" else -side]  # type: ignore[assignment]
    return replace(each, outcome=outcome, p=p)


def too_few_seeds(seeds: int) -> str:
    """Return that a duel of that many evaluation seeds can't have a winner, why, and the cure; empty if it can."""
    if seeds >= FEWEST:
        return ""
    why = (
        "a single difference always has a sign"
        if seeds == 1
        else f"{seeds} differences without a cause have one sign in 1 of {2 ** (seeds - 1)} duels"
    )
    return (
        f"{seeds} evaluation {'seed gives' if seeds == 1 else 'seeds give'} no verdict: {why}. Use at least {FEWEST}."
    )


def unflattered(found: Iterable[Difference], failed: Collection[str]) -> list[Difference]:
    """Return the differences without leads and levels of strategies with failed runs: the remaining seeds would be
    biased.
    """
    flattered: Mapping[Outcome, slice] = {"ahead": slice(0, 1), "behind": slice(1, 2), "level": slice(0, 2)}
    return [
        replace(each, outcome="failed runs")
        if {*(each.first, each.second)[flattered.get(each.outcome, slice(0))]} & {*failed}
        else each
        for each in found
    ]


def verdict(names: Sequence[str], found: Sequence[Difference], margin: float, unit: str) -> str:
    """Return who won and by how much, or that it is undecided, in one or two sentences; `unit` follows a difference,
    such as ` points`.
    """
    if any(each.outcome == "too few seeds" for each in found):
        least = min(len(each.by_seed) for each in found)
        return f"Too few seeds: at least {FEWEST} pairs of runs are needed to name a winner; got {least}."
    stands = _standing(names, found)
    winner = next(
        (name for name in names if all(stands[name, other] == "ahead" for other in names if other != name)), None
    )
    if winner:
        leads = [_lead(winner, each, unit) for each in found if winner in (each.first, each.second)]
        return f"{winner} is ahead of {enumeration(leads)}."
    if all(each.outcome == "level" for each in found):
        return f"Level: {enumeration(names)} differ by less than the margin of {_number(margin)}{unit}."
    return " ".join(_partly(names, stands, found, unit))


def first_at(tests: Iterable[Spent], target: float, amount: float, better: Better) -> Spent | None:
    """Return the first test within the budget that meets the target."""
    within = sorted((test for test in tests if test.spent <= amount * (1 + 1e-9)), key=lambda test: test.spent)
    return next((test for test in within if (test.value >= target if better == "max" else test.value <= target)), None)


def reached(
    tests: Mapping[str, Mapping[int, Sequence[Spent]]], target: float, amount: float, better: Better
) -> list[StrategyTarget]:
    """Return how each strategy reached the target; `tests` has the tests of each one's runs by seed."""
    found = []
    for name, of_seeds in tests.items():
        firsts = {seed: first for seed, own in of_seeds.items() if (first := first_at(own, target, amount, better))}
        found.append(
            StrategyTarget(
                name,
                len(of_seeds),
                {seed: first.spent for seed, first in firsts.items()},
                {seed: first.time_s for seed, first in firsts.items()},
            )
        )
    return found


def usual_target(tests: Mapping[str, Mapping[int, Sequence[Spent]]], amount: float, better: Better) -> float | None:
    """Return the hardest target, to three figures, that every run reached within the budget; None if a run has no test
    within it.
    """
    best = [
        (max if better == "max" else min)(
            (test.value for test in own if test.spent <= amount * (1 + 1e-9)), default=None
        )
        for of_seeds in tests.values()
        for own in of_seeds.values()
    ]
    known = [value for value in best if value is not None]
    if not known or len(known) < len(best):
        return None
    return easier(min(known) if better == "max" else max(known), better)


def _standing(names: Sequence[str], found: Sequence[Difference]) -> dict[tuple[str, str], Outcome]:
    other_way: dict[Outcome, Outcome] = {"ahead": "behind", "behind": "ahead"}
    stands = {(each.first, each.second): each.outcome for each in found}
    return stands | {(second, first): other_way.get(outcome, outcome) for (first, second), outcome in stands.items()}


def _lead(winner: str, each: Difference, unit: str) -> str:
    """Return the loser and the margin with its interval, for either direction of the difference."""
    assert each.found is not None
    loser = each.second if winner == each.first else each.first
    low, high = sorted((abs(each.found.low), abs(each.found.high)))
    return f"{loser} by {_number(abs(each.found.mean))}{unit} ({_number(low)} to {_number(high)})"


def _partly(
    names: Sequence[str], stands: Mapping[tuple[str, str], Outcome], found: Sequence[Difference], unit: str
) -> Iterable[str]:
    yield f"No clear winner{'' if len(names) == 2 else ' overall'}."
    for name in names:
        if leads := [
            _lead(name, each, unit)
            for each in found
            if name in (each.first, each.second) and _leads(name, each, stands)
        ]:
            yield f"{name} is ahead of {enumeration(leads)}."
    level = [f"{each.first} and {each.second}" for each in found if each.outcome == "level"]
    if level:
        yield f"Level: {'; '.join(level)}."
    broken = [f"{each.first} and {each.second}" for each in found if each.outcome == "failed runs"]
    if broken:
        yield f"Undecided because of failed runs: {'; '.join(broken)}."
    still = [f"{each.first} and {each.second}" for each in found if each.outcome == "open"]
    if still:
        yield f"Inconclusive: {'; '.join(still)}; the difference may be 0. Add seeds."


def _leads(name: str, each: Difference, stands: Mapping[tuple[str, str], Outcome]) -> bool:
    other = each.second if name == each.first else each.first
    return stands[name, other] == "ahead"


def _number(value: float) -> str:
    return f"{value:.{DIGITS}g}"
