"""Strategies held against each other seed by seed: paired differences with intervals, who is ahead, and time to a
target. Torch-free and pure.

A lead takes an interval on one side of 0 and a p-value of at most 0.05 after Holm's correction for the number of pairs:
of equal strategies, however many, one is said to lead in at most 5 % of duels.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal

from engine.analysis.statistics.intervals import Interval, holm, mean_interval, p_of_no_difference
from engine.analysis.tuning import Better, Spent, easier

Outcome = Literal["ahead", "behind", "level", "open", "too few seeds", "failed runs"]
FEWEST = 5
"""Pairs below which nothing is said: of 4 differences without a cause all have the same sign in 1 of 8 duels."""
ERROR = 0.05
"""Share of duels of equal strategies in which a lead may be found, over all pairs."""
DIGITS = 3


@dataclass(frozen=True)
class Difference:
    """One strategy's values minus another's, seed by seed."""

    first: str
    second: str
    by_seed: Mapping[int, float]
    outcome: Outcome
    """How the first stands to the second."""
    found: Interval | None = None
    """Their mean with its 95 % interval; None where no seed has both."""
    p: float | None = None
    """The p-value of no difference, corrected for the number of pairs; None where there are too few seeds."""


@dataclass(frozen=True)
class StrategyTarget:
    """How one strategy came to a target within the budget."""

    name: str
    runs: int
    spent: Mapping[int, float]
    """The budget spent by the first test at the target or better, by seed; seeds that never came there are left out."""
    time_s: Mapping[int, float]


def differences(values: Mapping[str, Mapping[int, float]], better: Better, margin: float) -> list[Difference]:
    """Return the difference of each pair of strategies; `values` has each one's values by seed, `margin` is the
    difference that counts as none.
    """
    found = [_difference(one, values[one], other, values[other]) for one, other in combinations(values, 2)]
    known = [each for each in found if len(each.by_seed) >= FEWEST]
    corrected = holm([p_of_no_difference([*each.by_seed.values()]) for each in known])
    judged = {id(each): _judged(each, p, better, margin) for each, p in zip(known, corrected, strict=True)}
    return [judged.get(id(each), each) for each in found]


def _difference(first: str, ours: Mapping[int, float], second: str, theirs: Mapping[int, float]) -> Difference:
    """Return the difference over the seeds that both have, not judged yet."""
    by_seed = {seed: ours[seed] - theirs[seed] for seed in sorted({*ours} & {*theirs})}
    return Difference(first, second, by_seed, "too few seeds", mean_interval([*by_seed.values()]) if by_seed else None)


def _judged(each: Difference, p: float, better: Better, margin: float) -> Difference:
    """Return a difference with its outcome: level where all of its interval counts as none, even where the difference
    has a sign.
    """
    assert each.found is not None
    side = 0 if p > ERROR else each.found.side(0.0)
    if -margin <= each.found.low and each.found.high <= margin:
        outcome: Outcome = "level"
    else:
        outcome = {1: "ahead", -1: "behind", 0: "open"}[side if better == "max" else -side]  # type: ignore[assignment]
    return replace(each, outcome=outcome, p=p)


def unflattered(found: Iterable[Difference], failed: Collection[str]) -> list[Difference]:
    """Return the differences without the leads, and the levels, of strategies some of whose runs failed: the seeds that
    are left would speak for them.
    """
    flattered: Mapping[Outcome, slice] = {"ahead": slice(0, 1), "behind": slice(1, 2), "level": slice(0, 2)}
    return [
        replace(each, outcome="failed runs")
        if {*(each.first, each.second)[flattered.get(each.outcome, slice(0))]} & {*failed}
        else each
        for each in found
    ]


def verdict(names: Sequence[str], found: Sequence[Difference], margin: float, unit: str) -> str:
    """Return in a sentence or two who won and by how much, or that it can't be told; `unit` follows a difference, such
    as ` points`.
    """
    if any(each.outcome == "too few seeds" for each in found):
        least = min(len(each.by_seed) for each in found)
        return (
            f"Too few seeds: {least} {'pair' if least == 1 else 'pairs'} of runs to compare, and {FEWEST} are "
            "needed to say who is ahead."
        )
    stands = _standing(names, found)
    winner = next(
        (name for name in names if all(stands[name, other] == "ahead" for other in names if other != name)), None
    )
    if winner:
        leads = [_lead(winner, each, unit) for each in found if winner in (each.first, each.second)]
        return f"{winner} is ahead of {joined(leads)}."
    if all(each.outcome == "level" for each in found):
        return f"They are level: {joined(names)} differ by less than {_number(margin)}{unit}, which counts as none."
    return " ".join(_partly(names, stands, found, unit))


def first_at(tests: Iterable[Spent], target: float, amount: float, better: Better) -> Spent | None:
    """Return the first test within the budget that is at the target or better."""
    within = sorted((test for test in tests if test.spent <= amount * (1 + 1e-9)), key=lambda test: test.spent)
    return next((test for test in within if (test.value >= target if better == "max" else test.value <= target)), None)


def reached(
    tests: Mapping[str, Mapping[int, Sequence[Spent]]], target: float, amount: float, better: Better
) -> list[StrategyTarget]:
    """Return how each strategy came to the target; `tests` has the tests of each one's runs by seed."""
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
    """Return the hardest target, to three figures, that every run reached within the budget; None where one was not
    tested within it.
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
    """Return the loser and by how much, with the interval, whichever way the difference was taken."""
    assert each.found is not None
    loser = each.second if winner == each.first else each.first
    low, high = sorted((abs(each.found.low), abs(each.found.high)))
    return f"{loser} by {_number(abs(each.found.mean))}{unit} ({_number(low)} to {_number(high)})"


def _partly(
    names: Sequence[str], stands: Mapping[tuple[str, str], Outcome], found: Sequence[Difference], unit: str
) -> Iterable[str]:
    yield f"Who is ahead of {'both' if len(names) == 2 else 'all'} can't be told."
    for name in names:
        if leads := [
            _lead(name, each, unit)
            for each in found
            if name in (each.first, each.second) and _leads(name, each, stands)
        ]:
            yield f"{name} is ahead of {joined(leads)}."
    level = [f"{each.first} and {each.second}" for each in found if each.outcome == "level"]
    if level:
        yield f"Level: {'; '.join(level)}."
    broken = [f"{each.first} and {each.second}" for each in found if each.outcome == "failed runs"]
    if broken:
        yield f"Not decided: {'; '.join(broken)}; runs of one that would be ahead or level failed."
    still = [f"{each.first} and {each.second}" for each in found if each.outcome == "open"]
    if still:
        yield f"Open: {'; '.join(still)}; their difference may be 0. More seeds would tell."


def _leads(name: str, each: Difference, stands: Mapping[tuple[str, str], Outcome]) -> bool:
    other = each.second if name == each.first else each.first
    return stands[name, other] == "ahead"


def joined(words: Sequence[str]) -> str:
    """Return words as a sentence has them: `A, B and C`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _number(value: float) -> str:
    return f"{value:.{DIGITS}g}"
