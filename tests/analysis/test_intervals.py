"""Intervals over seeds and what is told from them, held against scipy on the same numbers."""

import json
from collections.abc import Callable, Mapping, Sequence
from math import exp
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.analysis.statistics.groups import grouped
from engine.analysis.statistics.intervals import (
    LEVEL,
    LIMIT,
    RESAMPLES,
    SEED,
    Ends,
    Floats,
    Statistic,
    central,
    difference_of_means,
    ends,
    holm,
    mean_interval,
    p_of_no_difference,
    slope_within,
    student,
)
from tests import scipy_stats as stats

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
    assert mean_interval([3.0]).side(0.0) == 0


@pytest.mark.parametrize("values", [[95.0, 96.5], [7.0], [0.1 + 0.2, 0.3, 0.3]])
def test_where_nothing_is_known_of_the_spread_the_ends_are_the_least_and_the_greatest_value(
    values: list[float],
) -> None:
    found = mean_interval(values)
    assert (found.method, found.low, found.high) == ("range", min(values), max(values))
    assert found.is_constant == (len(set(np.round(values, 12))) == 1)
    assert found.side(0.0) == (1 if len(values) > 2 else 0)


@pytest.mark.parametrize(("values", "wanted"), [([1.0, 1.1, 0.9], 1), ([-1.0, -1.1, -0.9], -1), ([1.0, -1.0, 0.2], 0)])
def test_a_sign_is_told_where_the_interval_leaves_it_out(values: list[float], wanted: int) -> None:
    assert mean_interval(values, 0.9).side(0.0) == wanted


def test_equal_differences_are_judged_by_signs_and_others_as_by_scipy_and_holm() -> None:
    rng = np.random.default_rng(3)
    samples = [rng.normal(shift, 1, 6).tolist() for shift in (0, 0.5, 1, 3)]
    p_values = [p_of_no_difference(each) for each in samples]
    assert p_values == pytest.approx([stats.ttest_1samp(each, 0).pvalue for each in samples])
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0] and holm([]) == []
    assert p_of_no_difference([5.0] * 5) == 2**-4, "their spread is not known, so no t can be"
    assert p_of_no_difference([95.1 - 90.1, 96.2 - 91.2, 97.3 - 92.3, 5, 5, 5]) == 2**-5, "rounding is no spread"
    assert p_of_no_difference([0.0] * 5) == 1.0


COUNTS = (3, 5, 8, 10, 20)
DRAWS, LEAST = 2_000, 0.93
"""How often an interval is drawn, and the least share of them that covers the true value: always the same draws, so
none fails by chance.
"""
POOL: dict[str, dict[str, list[float]]] = json.loads((Path(__file__).parent / "result_pool.json").read_text())
"""Results of 65 seeds of three short runs (2026-11-23), by experiment and number."""
RECORDED = {
    f"{name} {number}": np.array(values)
    for name, numbers in POOL.items()
    for number, values in numbers.items()
    if number != "perf/execution_time_s"
}
"""Wall times are apart: they were taken on a busy machine, with outliers that few values can't show."""


def covered(found: Ends, true: float) -> tuple[float, float]:
    """Return how often an interval covers the true value, and how often there is one."""
    known = found.method != "range"
    return float(((found.low <= true) & (true <= found.high))[known].mean()) if known.any() else np.nan, float(
        known.mean()
    )


@pytest.mark.long  # the share of intervals that cover the true value is a rate
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("statistic", ["mean", "iqm", "median"])
def test_normal_draws_are_covered_as_promised_or_have_no_interval(statistic: Statistic, count: int) -> None:
    found = ends(np.random.default_rng(count).normal(5.0, 2.0, (count, DRAWS)), statistic)
    often, there = covered(found, 5.0)
    assert there in (0.0, 1.0)
    assert often >= LEAST if there else (statistic, count) in {("median", 3), ("median", 5)}


@pytest.mark.long  # the share of intervals that cover the true value is a rate
@pytest.mark.parametrize("count", COUNTS)
def test_means_of_recorded_results_are_covered_as_promised(count: int) -> None:
    rng = np.random.default_rng(count)
    found = {
        name: covered(ends(rng.choice(pool, (count, DRAWS))), float(pool.mean())) for name, pool in RECORDED.items()
    }
    assert all(there > 0.9 for _, there in found.values())
    assert np.mean([often for often, _ in found.values()]) >= LEAST
    assert all(often >= LEAST - 0.02 for often, _ in found.values()), (
        "the mean over kinds hides no kind that is far off"
    )


@pytest.mark.long  # the share of intervals that cover the true value is a rate
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("number", ["test/accuracy", "test/loss"])
def test_differences_of_recorded_results_are_covered_as_promised(number: str, count: int) -> None:
    rng = np.random.default_rng(count)
    ours, theirs = (np.array(POOL[name][number]) for name in ("reference", "sync_sgd"))
    often, _ = covered(
        ends(rng.choice(ours, (count, DRAWS)) - rng.choice(theirs, (count, DRAWS))), float(ours.mean() - theirs.mean())
    )
    assert often >= LEAST


Draw = Callable[[np.random.Generator, tuple[int, ...]], Floats]
NORMAL, EXPONENTIAL = "normal", "exponential"


def distributions() -> dict[str, Draw]:
    """Return ways to draw values: normal, skewed, and recorded run times."""
    found: dict[str, Draw] = {
        NORMAL: lambda rng, shape: rng.normal(10, 1, shape),
        **{f"lognormal {sigma:g}": _lognormal(sigma) for sigma in (0.25, 0.5, 1.0)},
        EXPONENTIAL: lambda rng, shape: 2 + rng.exponential(1, shape),
    }
    return found | {f"times of {name}": _recorded(np.array(own["perf/execution_time_s"])) for name, own in POOL.items()}


def truth(name: str, statistic: Statistic) -> float:
    """Return a distribution's mean, median or interquartile mean; the last by 1,000,000 draws."""
    exact: Mapping[tuple[str, str], float] = {
        (NORMAL, "mean"): 10,
        (NORMAL, "median"): 10,
        (EXPONENTIAL, "mean"): 3,
        (EXPONENTIAL, "median"): 2 + float(np.log(2)),
        **{(f"lognormal {sigma:g}", "mean"): exp(sigma**2 / 2) for sigma in (0.25, 0.5, 1.0)},
        **{(f"lognormal {sigma:g}", "median"): 1 for sigma in (0.25, 0.5, 1.0)},
    }
    if (name, statistic) in exact:
        return exact[name, statistic]
    many = np.sort(distributions()[name](np.random.default_rng(0), (1_000_000,)))
    return float({"mean": many, "median": many[499_999:500_001], "iqm": many[250_000:750_000]}[statistic].mean())


def _lognormal(sigma: float) -> Draw:
    return lambda rng, shape: rng.lognormal(0, sigma, shape)


def _recorded(values: Floats) -> Draw:
    return lambda rng, shape: rng.choice(values, shape)


def share_covered(found: Ends, true: float) -> float | None:
    """Return `covered` in percent; None where minimum and maximum are shown instead of an interval."""
    often, there = covered(found, true)
    return round(100 * often, 1) if there else None


def coverage(name: str, statistic: Statistic, counts: Sequence[int], level: float = LEVEL) -> list[float]:
    """Return how often intervals over some counts of values cover the true value, in percent."""
    draw, true = distributions()[name], truth(name, statistic)
    found = [share_covered(ends(draw(np.random.default_rng(n), (n, 3_000)), statistic, level), true) for n in counts]
    assert None not in found
    return found  # type: ignore[return-value]


FEW = range(3, 9)


def test_the_limit_said_beside_intervals_is_the_measured_one() -> None:
    assert "Over 3 to 8 skewed values" in LIMIT and "about 90 % (80 to 85 % if strongly skewed)" in LIMIT
    skewed = [*coverage("lognormal 0.5", "mean", FEW), *coverage("exponential", "mean", FEW)]
    assert 87 <= min(skewed) < 93 and max(skewed) <= 93 and np.mean(skewed) == pytest.approx(90, abs=1)
    assert all(80 <= often <= 85 for often in coverage("lognormal 1", "mean", FEW))
    assert min(coverage("normal", "mean", FEW)) >= 94, "the 95 % are true of normal values"
    assert "that of a median covers at least 95 %" in LIMIT
    assert all(min(coverage(name, "median", (6, 7, 8))) >= 95 for name in ("lognormal 1", "exponential", "normal"))


@pytest.mark.long  # the share of intervals that cover the true value is a rate
def test_differences_of_skewed_values_are_covered_as_promised() -> None:
    for name in ("lognormal 1", "exponential"):
        for count in FEW:
            one, other = distributions()[name](np.random.default_rng(count), (2, count, 3_000))
            assert (share_covered(ends(one - other), 0.0) or 0) >= 94


@pytest.mark.parametrize("statistic", ["mean", "iqm"])
@pytest.mark.parametrize("count", [10, 17])
def test_from_ten_values_it_is_scipys_bca_at_the_expanded_level(statistic: Statistic, count: int) -> None:
    values = np.random.default_rng(1).gamma(2.0, size=(count, 20))
    tail = float(stats.norm.cdf(-np.sqrt(count / (count - 1)) * student(0.95, count - 1)))
    found = ends(values, statistic)

    def statistic_of(sample: Floats, axis: int = -1) -> Any:
        return central(np.moveaxis(sample, axis, 0), statistic)

    for place in range(3):
        wanted = stats.bootstrap(
            (values[:, place],),
            statistic_of,
            method="BCa",
            confidence_level=1 - 2 * tail,
            n_resamples=RESAMPLES,
            rng=np.random.default_rng(SEED),
        ).confidence_interval
        student_low, student_high = stats.t.interval(
            0.95, count - 1, loc=values[:, place].mean(), scale=stats.sem(values[:, place])
        )
        low, high = (
            (min(wanted.low, student_low), max(wanted.high, student_high))
            if statistic == "mean"
            else (wanted.low, wanted.high)
        )
        assert (found.low[place], found.high[place]) == pytest.approx((low, high), rel=1e-9)


@pytest.mark.parametrize(("count", "statistic"), [(1, "mean"), (2, "mean"), (4, "iqm"), (5, "median")])
def test_too_few_values_have_no_interval_but_the_least_and_the_greatest(count: int, statistic: Statistic) -> None:
    values = np.random.default_rng(0).normal(size=(count, 4))
    found = ends(values, statistic)
    assert set(found.method) == {"range"}
    assert (found.low.tolist(), found.high.tolist()) == (values.min(axis=0).tolist(), values.max(axis=0).tolist())


@pytest.mark.parametrize("count", [3, 12])
def test_equal_values_say_nothing_of_their_spread(count: int) -> None:
    values = np.stack([np.full(count, 95.0), np.linspace(1, 2, count)], axis=1)
    values[0, 0] += 1e-12
    assert ends(values).method.tolist() == ["range", "student" if count == 3 else "bca"]


def test_medians_groups_and_the_recorded_pool_are_what_they_say() -> None:
    values = np.arange(12.0)[:, None]
    found = ends(values, "median")
    assert (found.low[0], found.high[0]) == (2.0, 9.0)
    assert 1 - 2 * stats.binom.cdf(2, 12, 0.5) >= 0.95 > 1 - 2 * stats.binom.cdf(3, 12, 0.5)
    assert len(RECORDED) >= 5
    assert all(len(values) >= 30 for values in RECORDED.values())
    first, second = grouped([((1, "gpipe"), 3, 2.0), ((2, "gpipe"), 4, 9.0), ((1, "gpipe"), 5, 4.0)])
    assert (first.key, first.values, first.mean, first.low, first.high) == (
        (1, "gpipe"),
        {3: 2.0, 5: 4.0},
        3.0,
        2.0,
        4.0,
    )
    assert (second.mean, second.low, second.high) == (9.0, 9.0, 9.0)
    assert grouped([]) == []


BLOCKS = np.array([0, 0, 0, 1, 1, 1, 2, 2, 3, 3, 3, 4])
"""Of which the third and the last lack values."""
PLACES = np.array([0.0, 1, 3, 0, 1, 3, 1, 3, 0, 1, 3, 0])


def in_blocks(rng: np.random.Generator, steep: float, apart: float) -> list[float]:
    """Return values along a line of that slope whose blocks lie `apart` (standard deviation) from each other."""
    shifts = rng.normal(0, apart, 5)
    return list(steep * PLACES + shifts[BLOCKS] + rng.normal(0, 0.3, len(PLACES)))


def test_the_slope_within_blocks_is_that_of_a_regression_with_an_intercept_each() -> None:
    values = in_blocks(np.random.default_rng(3), -0.5, 4.0)
    design = np.column_stack([PLACES, *(block == BLOCKS for block in range(5))]).astype(float)
    (steep, *_), (left,), *_ = np.linalg.lstsq(design, np.array(values))
    error = np.sqrt(left / (len(values) - 6) * np.linalg.inv(design.T @ design)[0, 0])
    half = stats.t.ppf(0.975, len(values) - 6) * error
    found = slope_within(list(PLACES), values, list(BLOCKS))
    assert (found.mean, found.low, found.high) == pytest.approx((steep, steep - half, steep + half))
    plain = slope_within(list(PLACES), values, [0] * len(values))
    assert found.high < 0 < plain.high, "what is apart between blocks hides the slope from a single line"
    one = stats.linregress(PLACES, values)
    assert plain.mean == pytest.approx(one.slope)
    assert plain.high - plain.mean == pytest.approx(stats.t.ppf(0.975, len(values) - 2) * one.stderr)
    with pytest.raises(ValueError, match="determine no slope"):
        slope_within([1.0, 2.0, 1.0], [1.0, 2.0, 3.0], [0, 0, 1])


@pytest.mark.long  # the share of intervals that cover the true value is a rate
@pytest.mark.parametrize("steep", [0.0, -0.5])
@pytest.mark.parametrize("apart", [0.0, 4.0])
def test_the_slope_within_incomplete_blocks_is_covered_as_promised(steep: float, apart: float) -> None:
    rng = np.random.default_rng(11)
    intervals = [slope_within(list(PLACES), in_blocks(rng, steep, apart), list(BLOCKS)) for _ in range(1_500)]
    assert np.mean([found.low <= steep <= found.high for found in intervals]) == pytest.approx(0.95, abs=0.015)
    assert np.mean([found.mean for found in intervals]) == pytest.approx(steep, abs=0.02)


def test_a_difference_of_means_is_welchs_and_covers_what_is_true_where_it_has_an_interval() -> None:
    own, others = [3.0, 4.5, 4.0, 5.5], [2.0, 2.5, 2.25]
    found, test = difference_of_means(own, others), stats.ttest_ind(own, others, equal_var=False)
    low, high = test.confidence_interval(LEVEL)
    assert found.interval == pytest.approx((low, high)) and found.sign == 1
    assert (found.mean, found.mean / found.error) == pytest.approx((2.0, test.statistic)) and found.error
    assert found.share == pytest.approx(2.0 / 2.25) and difference_of_means(others, own).sign == -1
    draws, covered = np.random.default_rng(0).normal(size=(4_000, 13)), dict[int, float]()
    for few in (2, 3):
        pairs = [(each[:few].tolist(), (0.2 * each[3:]).tolist()) for each in draws]
        intervals = [difference_of_means(*pair).interval for pair in pairs]
        covered[few] = float(np.mean([each is not None and each[0] <= 0 <= each[1] for each in intervals]))
    assert covered[2] == 0 and covered[3] >= 0.93, "of 2 values it would cover 90 %, so there is none"


@pytest.mark.parametrize(
    ("own", "others", "share", "has_error"),
    [
        ([2.0], [1.0, 1.5], 0.6, False),
        ([2.0, 2.0], [1.0, 1.0], 1.0, False),
        ([0.1 + 0.2, 0.3], [0.3, 0.3], 0.0, False),
        ([1.0, 2.0], [0.0, 0.0], None, True),
        ([1.0, 2.0], [1.0, 3.0], -0.25, True),
    ],
)
def test_a_difference_of_few_values_has_no_interval_and_of_one_no_error(
    own: list[float], others: list[float], share: float | None, has_error: bool
) -> None:
    found = difference_of_means(own, others)
    assert found.share == pytest.approx(share) and (found.error is not None) == has_error
    assert found.interval is None and found.sign == 0
