"""The interval covers the true value as often as it promises, on normal draws and on recorded results; where it can't, it says that it is none."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from engine.analysis.aligning import Floats
from engine.analysis.confidence import RESAMPLES, SEED, Ends, Statistic, central, ends, student
from engine.home import ROOT

COUNTS = (3, 5, 8, 10, 20)
SIZES = pytest.mark.parametrize(("draws", "least"), [(300, 0.91), pytest.param(2_000, 0.93, marks=pytest.mark.long)])
"""How often an interval is drawn, and the least share of them that covers the true value: always the same draws, so none fails by chance."""
POOL: dict[str, dict[str, list[float]]] = json.loads((ROOT / "bench/results/result_pool.json").read_text())["figures"]["values"]
RECORDED = {f"{name} {number}": np.array(values) for name, numbers in POOL.items() for number, values in numbers.items() if number != "perf/execution_time_s"}
"""Wall times are apart: they were taken on a busy machine, with outliers that few values can't show."""


def covered(found: Ends, true: float) -> tuple[float, float]:
    """Return how often an interval covers the true value, and how often there is one."""
    known = found.method != "range"
    return float(((found.low <= true) & (true <= found.high))[known].mean()) if known.any() else np.nan, float(known.mean())


@SIZES
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("statistic", ["mean", "iqm", "median"])
def test_normal_draws_are_covered_as_promised_or_have_no_interval(statistic: Statistic, count: int, draws: int, least: float) -> None:
    found = ends(np.random.default_rng(count).normal(5.0, 2.0, (count, draws)), statistic)
    often, there = covered(found, 5.0)
    assert there in (0.0, 1.0)
    assert often >= least if there else (statistic, count) in {("median", 3), ("median", 5)}


@SIZES
@pytest.mark.parametrize("count", COUNTS)
def test_means_of_recorded_results_are_covered_as_promised(count: int, draws: int, least: float) -> None:
    rng = np.random.default_rng(count)
    found = {name: covered(ends(rng.choice(pool, (count, draws))), float(pool.mean())) for name, pool in RECORDED.items()}
    assert all(there > 0.9 for _, there in found.values())
    assert np.mean([often for often, _ in found.values()]) >= least
    assert all(often >= least - 0.02 for often, _ in found.values()), "the mean over kinds hides no kind that is far off"


@SIZES
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("number", ["test/accuracy", "test/loss"])
def test_differences_of_recorded_results_are_covered_as_promised(number: str, count: int, draws: int, least: float) -> None:
    rng = np.random.default_rng(count)
    ours, theirs = (np.array(POOL[name][number]) for name in ("reference", "sync_sgd"))
    often, _ = covered(ends(rng.choice(ours, (count, draws)) - rng.choice(theirs, (count, draws))), float(ours.mean() - theirs.mean()))
    assert often >= least


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
            (values[:, place],), statistic_of, method="BCa", confidence_level=1 - 2 * tail, n_resamples=RESAMPLES, rng=np.random.default_rng(SEED)
        ).confidence_interval
        student_low, student_high = stats.t.interval(0.95, count - 1, loc=values[:, place].mean(), scale=stats.sem(values[:, place]))
        low, high = (min(wanted.low, student_low), max(wanted.high, student_high)) if statistic == "mean" else (wanted.low, wanted.high)
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


def test_the_interval_of_a_median_has_the_exact_coverage_of_its_ranks() -> None:
    values = np.arange(12.0)[:, None]
    found = ends(values, "median")
    assert (found.low[0], found.high[0]) == (2.0, 9.0)
    assert 1 - 2 * stats.binom.cdf(2, 12, 0.5) >= 0.95 > 1 - 2 * stats.binom.cdf(3, 12, 0.5)


def test_the_recorded_pool_holds_results_of_several_kinds() -> None:
    assert Path(ROOT / "bench/result_pool.py").is_file() and len(RECORDED) >= 5
    assert all(len(values) >= 30 for values in RECORDED.values())
