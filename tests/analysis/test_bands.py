"""Bands equal scipy's on the raw points, need two members, and depend on nothing but the group's own members."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from engine.analysis.statistics.groups import Spread, line
from engine.analysis.statistics.intervals import Aligned, Floats, RunPoints, Statistic, aligned, ends, member
from tests import scipy_stats as stats

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
    return aligned([[member(steps, row)] for row in values]).values


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
@pytest.mark.parametrize("statistic", CENTRAL)
def test_a_line_is_of_all_members_or_a_gap(statistic: Statistic, spread: Spread) -> None:
    values = raw()
    whole = line(values, statistic, spread)
    values[0, :20] = values[3, 40:] = np.nan
    values[5, 30] = np.inf
    found = line(values, statistic, spread)
    there = np.isfinite(values).all(axis=0)
    assert found.count.tolist() == [0] * 20 + [7] * 10 + [0] + [7] * 9 + [0] * 20
    for one, of_all in ((found.centre, whole.centre), (found.low, whole.low), (found.high, whole.high)):
        assert one[there].tolist() == of_all[there].tolist() and np.isnan(one[~there]).all()
    assert set(found.method[~there]) == {""}


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


def test_runs_lie_on_the_union_of_positions_and_on_straight_lines_between_their_points() -> None:
    found = aligned([[made({0: 1, 4: 5, 8: 9})], [made({2: 20, 6: 60})]])
    assert (found.exact, found.cell) == (True, 0.0)
    assert same(found.x, [0, 2, 4, 6, 8])
    assert same(found.values[0], [1, 3, 5, 7, 9])
    assert same(found.values[1], [NAN, 20, 40, 60, NAN]), "nothing is beyond a run's own points"
    found = aligned([[member(np.array([1.0, 2.0, 1.0, 2.0]), np.array([10.0, 20.0, 30.0, NAN]))]])
    assert same(found.x, [1, 2])
    assert same(found.values[0], [20, 20])
    found = aligned([[made({0: 1, 1: NAN, 3: np.inf, 5: 5})], [made({0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 5})]])
    assert same(found.values[0], [1, NAN, NAN, NAN, NAN, 5]), "no line goes through what is not finite"


def test_the_ranks_of_a_run_are_its_mean_where_all_have_values() -> None:
    busy, idle = made({0: 100, 2: 100, 4: 100}), made({1: 0, 3: 0, 5: 0})
    assert same(aligned([[busy, idle]]).values[0], [NAN, 50, 50, 50, 50, NAN]), "no zigzag between the ranks"
    found = aligned([[busy, made({0: NAN})], [made({0: NAN})], []])
    assert same(found.values[0], [100] * 3) and found.members.tolist() == [True, False, False]


STARTS = (5.0, 5.03, 5.05)


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("many", [12, 4_000])
def test_a_mean_does_not_jump_where_its_runs_begin_and_end_apart(many: int, log: bool) -> None:
    steps = np.linspace(0, 55, many)
    runs = [[member(start + steps, 10.0 * place + (start + steps) / 2)] for place, start in enumerate(STARTS)]
    found = aligned(runs, log=log)
    drawn = line(found.values[found.members], "mean", "sd")
    there = drawn.count > 0
    assert set(drawn.count) <= {0, 3} and there.sum() > len(there) - 6
    assert drawn.centre[there] == pytest.approx(10 + found.x[there] / 2, abs=0.1 if many > 12 else 1e-9)
    assert (drawn.high - drawn.low)[there] == pytest.approx(20, abs=0.2)
    part = aligned(runs, log=log, within=(5.04, 5.08))
    close = line(part.values[part.members])
    assert all(count in (0, 3) for count in close.count), "a range has the members of the whole"


def test_cells_are_means_of_raw_points_and_empty_ones_lie_between_their_neighbours() -> None:
    generator = np.random.default_rng(3)
    x, y = np.sort(generator.uniform(0, 100, 30_000)), generator.normal(size=30_000)
    found = aligned([[RunPoints(x, y)]], most=50)
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
    before, after = (aligned([[RunPoints(x, y)]], most=100).values[0] for y in (calm, spiked))
    assert (before != after).nonzero()[0].tolist() == [10]
    dense, sparse = RunPoints(np.arange(1_000.0), np.zeros(1_000)), made({100: 1, 490: 7, 510: 3})
    found = aligned([[dense], [sparse]], most=100)
    shown = dict(zip(found.x, found.values[1], strict=True))
    for near in (300, 502):
        at = min(shown, key=lambda x: abs(x - near))
        assert shown[at] == pytest.approx(np.interp(at, [100, 490, 510], [1, 7, 3]))
    assert np.isnan(shown[min(shown)]) and np.isnan(shown[max(shown)])
    x = np.arange(0.0, 5_000.0)
    found = aligned([[member(x, x, log=True)]], log=True, most=40)
    assert found.x[0] >= 1
    assert found.cell == pytest.approx(4_999 ** (1 / 40))
    assert np.all(np.diff(np.log(found.x)) > 0)


@pytest.mark.parametrize("members", [[], [[made({})]], [[made({})], []]])
def test_runs_without_points_align_to_nothing(members: list[list[RunPoints]]) -> None:
    found: Aligned = aligned(members)
    assert found.values.shape == (len(members), 0)
