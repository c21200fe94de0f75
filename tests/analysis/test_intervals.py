"""Intervals over seeds and what is told from them, held against scipy on the same numbers."""

import math

import numpy as np
import pytest
from scipy import stats

from engine.analysis.intervals import crossing, equivalence, kendall, mean_interval, sign, slope

VALUES = [98.9, 99.02, 98.96, 99.1]


@pytest.mark.parametrize("coverage", [0.9, 0.95])
def test_an_interval_is_students(coverage: float) -> None:
    low, high = stats.t.interval(coverage, len(VALUES) - 1, loc=np.mean(VALUES), scale=stats.sem(VALUES))
    found = mean_interval(VALUES, coverage)
    assert (found.mean, found.low, found.high, found.count) == pytest.approx((np.mean(VALUES), low, high, 4))


def test_one_value_says_nothing_of_its_spread() -> None:
    found = mean_interval([3.0])
    assert (found.mean, found.low, found.high) == (3.0, -math.inf, math.inf)
    assert equivalence([3.0], 3.0, 100.0) == "undecided"
    assert sign([3.0]) == 0


def test_an_interval_is_cut_where_no_value_is_possible() -> None:
    found = mean_interval([1.0, 3.0]).within(0.0)
    assert (found.low, found.mean, found.high) == (0.0, 2.0, mean_interval([1.0, 3.0]).high)
    assert mean_interval([99.0, 99.9]).within(0.0, 100.0).high == 100.0
    assert mean_interval([3.0]).within(0.0, 100.0) == mean_interval([3.0]), "one value has no interval"


@pytest.mark.parametrize("shift", [-2.0, -1.0, -0.85, -0.5, 0.0, 0.5, 0.85, 1.0, 2.0])
def test_equivalence_is_two_one_sided_tests(shift: float) -> None:
    values, value, tolerance = [shift - 0.2, shift, shift + 0.2, shift + 0.05], 0.0, 0.9
    above = stats.ttest_1samp(values, value - tolerance, alternative="greater").pvalue < 0.05
    below = stats.ttest_1samp(values, value + tolerance, alternative="less").pvalue < 0.05
    beyond = min(stats.ttest_1samp(values, value + side * tolerance, alternative=way).pvalue for side, way in ((1, "greater"), (-1, "less"))) < 0.05
    assert equivalence(values, value, tolerance) == ("within" if above and below else "outside" if beyond else "undecided")


@pytest.mark.parametrize(("values", "wanted"), [([1.0, 1.1, 0.9], 1), ([-1.0, -1.1, -0.9], -1), ([1.0, -1.0, 0.2], 0)])
def test_a_sign_is_told_where_the_interval_leaves_it_out(values: list[float], wanted: int) -> None:
    assert sign(values) == wanted


@pytest.mark.parametrize(("one", "other"), [([1, 2, 3, 4], [10, 20, 30, 40]), ([1, 2, 3, 4], [4, 3, 2, 1]), ([1, 2, 2, 4, 5], [3, 1, 4, 4, 5])])
def test_kendalls_tau_is_scipys(one: list[float], other: list[float]) -> None:
    assert kendall(one, other) == pytest.approx(stats.kendalltau(one, other).statistic)


def test_a_constant_row_has_no_order() -> None:
    assert kendall([1, 1, 1], [1, 2, 3]) == 0.0


def test_a_slope_is_that_of_least_squares() -> None:
    xs, ys = [1.0, 2.0, 4.0, 8.0], [3.0, 4.5, 9.0, 15.0]
    assert slope(xs, ys) == pytest.approx(np.polyfit(xs, ys, 1)[0])
    assert slope([2.0, 2.0], [1.0, 5.0]) == 0.0


@pytest.mark.parametrize(
    ("first", "second", "at"),
    [([3, 2, 1], [2, 2.5, 3], 1 + 1 / 1.5), ([1, 1, 1], [2, 2, 2], 1.0), ([3, 3, 3], [2, 2, 2], None), ([1, 3, 1], [2, 2, 2], 3.0), ([], [], None)],
)
def test_lines_cross_where_one_comes_to_be_below_for_good(first: list[float], second: list[float], at: float | None) -> None:
    assert crossing([1.0, 2.0, 4.0][: len(first)], first, second) == (None if at is None else pytest.approx(at))
