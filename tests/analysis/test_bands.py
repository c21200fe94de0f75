"""Bands equal scipy's on the raw points, need two members, and depend on nothing but the group's own members."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from engine.analysis.statistics.bands import Spread, line
from engine.analysis.statistics.confidence import Statistic, ends
from engine.analysis.statistics.resample import Aligned, Floats, RunPoints, aligned, member

MEMBERS, STEPS = 7, 60
Central = Callable[..., Any]
CENTRAL: dict[Statistic, Central] = {
    "mean": np.mean,
    "median": np.median,
    "iqm": lambda values, axis=0: stats.trim_mean(values, 0.25, axis=axis),
}


def raw(members: int = MEMBERS, seed: int = 5) -> Floats:
    return np.random.default_rng(seed).gamma(2.0, size=(members, STEPS))


def from_points(values: Floats) -> Floats:
    """Take the values through the alignment, each member's points at its own steps 0, 1, 2, …"""
    steps = np.arange(values.shape[1], dtype=float)
    return aligned([member(steps, row) for row in values]).values


@pytest.mark.parametrize("members", [2, 3, 7])
@pytest.mark.parametrize("statistic", CENTRAL)
def test_lines_and_spreads_are_scipys_of_the_raw_points(statistic: Statistic, members: int) -> None:
    values = raw(members)
    assert line(from_points(values), statistic).centre == pytest.approx(CENTRAL[statistic](values, axis=0), rel=1e-12)
    centre = CENTRAL[statistic](values, axis=0)
    for spread, apart in (("sd", stats.tstd(values, axis=0)), ("se", stats.sem(values, axis=0))):
        found = line(from_points(values), statistic, spread)  # type: ignore[arg-type]
        low, high = (centre - apart, centre + apart) if members > 2 else (values.min(axis=0), values.max(axis=0))
        assert found.low == pytest.approx(low, rel=1e-12)
        assert found.high == pytest.approx(high, rel=1e-12)
        assert set(found.method) == {spread if members > 2 else "range"}
    found = line(from_points(values), statistic, "range")
    assert (found.low.tolist(), found.high.tolist()) == (
        stats.tmin(values, axis=0).tolist(),
        stats.tmax(values, axis=0).tolist(),
    )


@pytest.mark.parametrize("members", [2, 3, 7, 12])
@pytest.mark.parametrize("statistic", CENTRAL)
def test_the_interval_is_the_one_of_all_pages(statistic: Statistic, members: int) -> None:
    values, found = raw(members), line(from_points(raw(members)), statistic, "ci")
    wanted = ends(values, statistic)
    assert (found.low, found.high) == (pytest.approx(wanted.low), pytest.approx(wanted.high))
    assert found.method.tolist() == wanted.method.tolist()


def test_two_members_have_no_interval_and_nobody_is_nothing() -> None:
    values = raw(2)
    found = line(values, "mean", "ci")
    assert set(found.method) == {"range"}
    assert (found.low.tolist(), found.high.tolist()) == (values.min(axis=0).tolist(), values.max(axis=0).tolist())
    found = line(np.full((2, 3), np.nan))
    assert np.isnan(found.centre).all() and found.count.tolist() == [0, 0, 0]
    assert line(np.empty((0, 0))).centre.size == 0


@pytest.mark.parametrize("spread", ["sd", "se", "ci", "range"])
def test_members_that_are_not_there_are_left_out_position_by_position(spread: Spread) -> None:
    values = raw()
    values[0, :20] = values[3, 40:] = np.nan
    values[5, 30] = np.inf
    found = line(values, "mean", spread)
    assert found.count.tolist() == [6] * 20 + [7] * 10 + [6] + [7] * 9 + [6] * 20
    alone = line(values[1:, :20], "mean", spread)
    assert (found.centre[:20].tolist(), found.low[:20].tolist(), found.high[:20].tolist()) == (
        alone.centre.tolist(),
        alone.low.tolist(),
        alone.high.tolist(),
    )


@pytest.mark.parametrize("spread", ["sd", "se", "ci", "range", "none"])
def test_one_member_has_a_line_and_no_band(spread: Spread) -> None:
    found = line(raw(1), "iqm", spread)
    assert found.centre == pytest.approx(raw(1)[0])
    assert np.isnan(found.low).all() and np.isnan(found.high).all()
    assert found.count.tolist() == [1] * STEPS


NAN = np.nan


def made(points: dict[float, float]) -> RunPoints:
    return member(np.array(list(points), dtype=float), np.array(list(points.values()), dtype=float))


def same(one: Floats, other: list[float] | Floats) -> bool:
    return bool(np.array_equal(one, np.asarray(other), equal_nan=True))


def test_runs_lie_on_the_union_of_positions_with_gaps_that_nothing_fills() -> None:
    found = aligned([made({0: 1, 4: 5, 8: 9}), made({2: 20, 6: 60})])
    assert (found.exact, found.cell) == (True, 0.0)
    assert same(found.x, [0, 2, 4, 6, 8])
    assert same(found.values[0], [1, 1, 5, 5, 9])
    assert same(found.values[1], [NAN, 20, 20, 60, NAN])
    found = aligned([member(np.array([1.0, 2.0, 1.0, 2.0]), np.array([10.0, 20.0, 30.0, NAN]))])
    assert same(found.x, [1, 2])
    assert same(found.values[0], [20, 20])
    found = aligned([made({0: 1, 1: NAN, 3: np.inf, 5: 5}), made({0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 5})])
    assert same(found.values[0], [1, NAN, NAN, NAN, NAN, 5])


def test_cells_are_means_of_raw_points_and_empty_ones_hold_the_last_before() -> None:
    generator = np.random.default_rng(3)
    x, y = np.sort(generator.uniform(0, 100, 30_000)), generator.normal(size=30_000)
    found = aligned([RunPoints(x, y)], most=50)
    edges = np.linspace(x[0], x[-1], 51)
    assert (found.exact, len(found.x)) == (False, 50)
    assert found.cell == pytest.approx(edges[1] - edges[0])
    for cell in (0, 7, 49):
        inside = (x >= edges[cell]) & ((x < edges[cell + 1]) | (cell == 49))
        assert found.values[0, cell] == pytest.approx(y[inside].mean())
    counts = np.histogram(x, edges)[0]
    assert (found.values[0] * counts).sum() / len(y) == pytest.approx(y.mean())
    x = np.arange(1_000.0)
    calm, spiked = np.sin(x), np.sin(x)
    spiked[100] = 1e300
    before, after = (aligned([RunPoints(x, y)], most=100).values[0] for y in (calm, spiked))
    assert (before != after).nonzero()[0].tolist() == [10]
    dense, sparse = RunPoints(np.arange(1_000.0), np.zeros(1_000)), made({100: 1, 490: 7, 510: 3})
    found = aligned([dense, sparse], most=100)
    shown = dict(zip(np.round(found.x, 1), found.values[1], strict=True))
    assert shown[min(shown, key=lambda at: abs(at - 300))] == 1
    assert shown[min(shown, key=lambda at: abs(at - 502))] == 7
    assert np.isnan(shown[min(shown)]) and np.isnan(shown[max(shown)])
    x = np.arange(0.0, 5_000.0)
    found = aligned([member(x, x, log=True)], log=True, most=40)
    assert found.x[0] >= 1
    assert found.cell == pytest.approx(4_999 ** (1 / 40))
    assert np.all(np.diff(np.log(found.x)) > 0)


@pytest.mark.parametrize("members", [[], [made({})], [made({}), made({})]])
def test_runs_without_points_align_to_nothing(members: list[RunPoints]) -> None:
    found: Aligned = aligned(members)
    assert found.values.shape == (len(members), 0)
