"""Duels against known answers: what counts of a curve, which rate wins, paired differences, who is ahead and how often
that is wrong.
"""

import numpy as np
import pytest

from engine.analysis.duel import (
    Better,
    Difference,
    Spent,
    at_budget,
    choose,
    differences,
    first_at,
    reached,
    usual_target,
    verdict,
)

SEEDS = (0, 100, 200, 300, 400, 500)


def curve_of(*pairs: tuple[float, float]) -> list[Spent]:
    return [Spent(spent, spent / 2, value) for spent, value in pairs]


def values(first: list[float], second: list[float]) -> dict[str, dict[int, float]]:
    return {"A": dict(zip(SEEDS, first, strict=False)), "B": dict(zip(SEEDS, second, strict=False))}


def pair(ours: dict[int, float], theirs: dict[int, float], better: Better, margin: float) -> Difference:
    return differences({"A": ours, "B": theirs}, better, margin)[0]


def judged(first: list[float], second: list[float], margin: float = 0.3) -> tuple[Difference, str]:
    found = differences(values(first, second), "max", margin)
    return found[0], verdict(["A", "B"], found, margin, " points")


def test_a_curve_is_cut_at_the_budget_and_the_best_mean_wins() -> None:
    curve = curve_of((2, 90), (4, 95), (6, 99))
    assert at_budget(curve, 5) == Spent(4, 2, 95)
    assert at_budget(curve, 6) == Spent(6, 3, 99), "what stands at the budget itself counts"
    assert at_budget(curve, 1.99) is None
    assert first_at(curve, 94, 10, "max") == Spent(4, 2, 95)
    assert first_at(curve, 94, 3, "max") is None
    rates = (0.01, 0.03, 0.1)
    found = choose(rates, {0.01: [90, 92], 0.03: [93, 95], 0.1: [99, None]}, "max")
    assert found and (found.rate, found.edge, dict(found.means)) == (0.03, "", {0.01: 91, 0.03: 94})
    least = choose(rates, {0.01: [0.2, 0.4], 0.03: [0.4, 0.4], 0.1: [float("nan"), 0.1]}, "min")
    assert least and (least.rate, least.edge) == (0.01, "least")
    level = choose(rates, {0.01: [90], 0.03: [95], 0.1: [95]}, "max")
    assert level and (level.rate, level.level, level.edge) == (0.03, (0.1,), "")
    largest = choose(rates, {0.01: [90], 0.03: [91], 0.1: [95]}, "max")
    assert largest and largest.edge == "largest"
    assert choose((0.1,), {0.1: [90]}, "max").edge == "", "a grid of one has no edge"  # type: ignore[union-attr]
    assert choose(rates, {rate: [None] for rate in rates}, "max") is None


def test_differences_pair_seeds_and_less_loss_is_better() -> None:
    found = pair({0: 95, 100: 97, 300: 50}, {0: 94, 100: 94, 200: 10}, "max", 0.3)
    assert found.by_seed == {0: 1, 100: 3}
    assert found.found and found.found.mean == 2
    assert found.outcome == "too few seeds"
    assert pair({0: 1.0}, {100: 1.0}, "max", 0.3).found is None
    found = pair(dict.fromkeys(SEEDS, 0.1), dict.fromkeys(SEEDS, 0.3), "min", 0.01)
    assert (found.outcome, found.found.mean if found.found else None) == ("ahead", pytest.approx(-0.2))
    assert verdict(["A", "B"], [found], 0.01, "") == "A is ahead of B by 0.2 (0.2 to 0.2)."
    found, sentence = judged([95, 96, 95, 96], [80, 81, 80, 81])
    assert found.outcome == "too few seeds"
    assert sentence == "Too few seeds: at least 5 pairs of runs are needed to name a winner; got 4."


@pytest.mark.parametrize(
    ("second", "outcome", "said"),
    [
        ([90, 91, 90, 91, 90, 91], "ahead", "A is ahead of B by 5 points (5 to 5)."),
        ([100.5, 101.4, 100.1, 101, 100, 101.9], "behind", "B is ahead of A by 5.32 points"),
        (
            [95.1, 95.9, 95, 96.1, 95, 96.05],
            "level",
            "Level: A and B differ by less than the margin of 0.3 points.",
        ),
        (
            [90, 100, 90, 101, 95, 97],
            "open",
            "No clear winner. Inconclusive: A and B; the difference may be 0. Add seeds.",
        ),
    ],
)
def test_the_verdict_follows_the_differences(second: list[float], outcome: str, said: str) -> None:
    found, sentence = judged([95, 96, 95, 96, 95, 96], second)
    assert found.outcome == outcome
    assert sentence.startswith(said)


def test_one_of_several_wins_only_against_all() -> None:
    base = [95.0, 96, 95, 96, 95, 96]
    three = {
        "A": dict(zip(SEEDS, base, strict=True)),
        "B": dict(zip(SEEDS, [x + d for x, d in zip(base, (1, -1.4, 0.9, -1, 1.2, -0.8), strict=True)], strict=True)),
        "C": dict.fromkeys(SEEDS, 80.0),
    }
    said = verdict(list(three), differences(three, "max", 0.3), 0.3, " points")
    assert said.startswith("No clear winner overall. A is ahead of C by 15.5 points")
    assert "B is ahead of C" in said and said.endswith("Inconclusive: A and B; the difference may be 0. Add seeds.")
    rng = np.random.default_rng(2)
    six = {str(place): dict(enumerate(rng.normal(98 if place == 3 else 95, 0.2, 5).tolist())) for place in range(6)}
    assert verdict(list(six), differences(six, "max", 0.3), 0.3, " points").startswith("3 is ahead of 0 by")


@pytest.mark.parametrize("duels", [20, pytest.param(300, marks=pytest.mark.long)])
@pytest.mark.parametrize("seeds", [5, 8, 12])
@pytest.mark.parametrize("strategies", [2, 6])
def test_of_equal_strategies_one_is_said_to_lead_in_at_most_a_twentieth_of_duels(
    strategies: int, seeds: int, duels: int
) -> None:
    rng = np.random.default_rng(seeds)
    drawn = rng.normal(95, 1, (duels, strategies, seeds)).tolist()
    wrong = 0
    for values in drawn:
        found = differences({str(place): dict(enumerate(own)) for place, own in enumerate(values)}, "max", 0.0)
        wrong += any(each.outcome in ("ahead", "behind") for each in found)
    assert wrong <= 0.05 * duels + 2 * (0.05 * 0.95 * duels) ** 0.5


def test_time_to_a_target_counts_whoever_came_there_within_the_budget() -> None:
    curves = {
        "A": {0: curve_of((2, 90), (4, 96), (6, 97)), 100: curve_of((2, 80), (4, 90), (6, 97))},
        "B": {0: curve_of((2, 96)), 100: []},
    }
    first, second = reached(curves, 95, 5, "max")
    assert (first.runs, dict(first.spent), dict(first.time_s)) == (2, {0: 4}, {0: 2})
    assert (second.runs, dict(second.spent)) == (2, {0: 2})
    assert usual_target(curves, 5, "max") is None, "a run without a test never reached any"
    del curves["B"][100]
    assert usual_target(curves, 5, "max") == 90
    assert usual_target({"A": {0: curve_of((1, 0.01234))}, "B": {0: curve_of((1, 0.0111))}}, 5, "min") == 0.0124
    assert usual_target({"A": {0: curve_of((1, 95.678))}}, 5, "max") == 95.6
