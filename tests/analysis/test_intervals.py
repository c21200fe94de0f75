"""Intervals over seeds and what is told from them, held against scipy on the same numbers."""

import numpy as np
import pytest
from scipy import stats

from engine.analysis.intervals import equivalence, holm, mean_interval, p_of_no_difference, slope

VALUES = [98.9, 99.02, 98.96, 99.1]


@pytest.mark.parametrize("level", [0.9, 0.95])
def test_an_interval_of_few_values_is_students(level: float) -> None:
    low, high = stats.t.interval(level, len(VALUES) - 1, loc=np.mean(VALUES), scale=stats.sem(VALUES))
    found = mean_interval(VALUES, level)
    assert (found.mean, found.low, found.high, found.count) == pytest.approx((np.mean(VALUES), low, high, 4))
    assert found.method == "student"


def test_one_value_says_nothing_of_its_spread() -> None:
    found = mean_interval([3.0])
    assert (found.mean, found.low, found.high, found.is_known) == (3.0, 3.0, 3.0, False)
    assert equivalence([3.0], 3.0, 100.0) == "undecided"
    assert mean_interval([3.0]).side(0.0) == 0


@pytest.mark.parametrize("values", [[95.0, 96.5], [7.0], [0.1 + 0.2, 0.3, 0.3]])
def test_where_nothing_is_known_of_the_spread_the_ends_are_the_least_and_the_greatest_value(values: list[float]) -> None:
    found = mean_interval(values)
    assert (found.method, found.low, found.high) == ("range", min(values), max(values))
    assert found.is_constant == (len(set(np.round(values, 12))) == 1)
    assert found.side(0.0) == (1 if len(values) > 2 else 0)


@pytest.mark.parametrize("shift", [-2.0, -1.0, -0.85, -0.5, 0.0, 0.5, 0.85, 1.0, 2.0])
def test_equivalence_is_two_one_sided_tests(shift: float) -> None:
    values, value, tolerance = [shift - 0.2, shift, shift + 0.2, shift + 0.05], 0.0, 0.9
    above = stats.ttest_1samp(values, value - tolerance, alternative="greater").pvalue < 0.05
    below = stats.ttest_1samp(values, value + tolerance, alternative="less").pvalue < 0.05
    beyond = min(stats.ttest_1samp(values, value + side * tolerance, alternative=way).pvalue for side, way in ((1, "greater"), (-1, "less"))) < 0.05
    assert equivalence(values, value, tolerance) == ("within" if above and below else "outside" if beyond else "undecided")


@pytest.mark.parametrize(("values", "wanted"), [([1.0, 1.1, 0.9], 1), ([-1.0, -1.1, -0.9], -1), ([1.0, -1.0, 0.2], 0)])
def test_a_sign_is_told_where_the_interval_leaves_it_out(values: list[float], wanted: int) -> None:
    assert mean_interval(values, 0.9).side(0.0) == wanted


def test_p_values_are_scipys_and_corrected_as_by_holm() -> None:
    rng = np.random.default_rng(3)
    samples = [rng.normal(shift, 1, 6).tolist() for shift in (0, 0.5, 1, 3)]
    p_values = [p_of_no_difference(each) for each in samples]
    assert p_values == pytest.approx([stats.ttest_1samp(each, 0).pvalue for each in samples])
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0] and holm([]) == []


def test_differences_that_are_all_equal_are_judged_by_their_signs() -> None:
    assert p_of_no_difference([5.0] * 5) == 2**-4, "their spread is not known, so no t can be"
    assert p_of_no_difference([95.1 - 90.1, 96.2 - 91.2, 97.3 - 92.3, 5, 5, 5]) == 2**-5, "rounding is no spread"
    assert p_of_no_difference([0.0] * 5) == 1.0


def test_a_slope_is_that_of_least_squares() -> None:
    xs, ys = [1.0, 2.0, 4.0, 8.0], [3.0, 4.5, 9.0, 15.0]
    assert slope(xs, ys) == pytest.approx(np.polyfit(xs, ys, 1)[0])
    assert slope([2.0, 2.0], [1.0, 5.0]) == 0.0
