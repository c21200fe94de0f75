"""Runs on common positions: the union of what was recorded, the last point held inside a run's own range, cells of long runs."""

import numpy as np
import pytest

from engine.analysis.aligning import Aligned, Floats, Member, aligned, member

NAN = np.nan


def made(points: dict[float, float]) -> Member:
    return member(np.array(list(points), dtype=float), np.array(list(points.values()), dtype=float))


def same(one: Floats, other: list[float] | Floats) -> bool:
    return bool(np.array_equal(one, np.asarray(other), equal_nan=True))


def test_positions_are_the_union_and_a_last_point_holds_inside_its_runs_range_alone() -> None:
    found = aligned([made({0: 1, 4: 5, 8: 9}), made({2: 20, 6: 60})])
    assert (found.exact, found.cell) == (True, 0.0)
    assert same(found.x, [0, 2, 4, 6, 8])
    assert same(found.values[0], [1, 1, 5, 5, 9])
    assert same(found.values[1], [NAN, 20, 20, 60, NAN])


def test_points_at_one_position_are_averaged_as_those_of_ranks_are() -> None:
    found = aligned([member(np.array([1.0, 2.0, 1.0, 2.0]), np.array([10.0, 20.0, 30.0, NAN]))])
    assert same(found.x, [1, 2])
    assert same(found.values[0], [20, 20])


def test_what_is_not_finite_is_a_gap_that_nothing_fills() -> None:
    found = aligned([made({0: 1, 1: NAN, 3: np.inf, 5: 5}), made({0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 5})])
    assert same(found.values[0], [1, NAN, NAN, NAN, NAN, 5])


def test_each_cell_is_the_mean_of_all_raw_points_in_it() -> None:
    generator = np.random.default_rng(3)
    x, y = np.sort(generator.uniform(0, 100, 30_000)), generator.normal(size=30_000)
    found = aligned([Member(x, y)], most=50)
    edges = np.linspace(x[0], x[-1], 51)
    assert (found.exact, len(found.x)) == (False, 50)
    assert found.cell == pytest.approx(edges[1] - edges[0])
    for cell in (0, 7, 49):
        inside = (x >= edges[cell]) & ((x < edges[cell + 1]) | (cell == 49))
        assert found.values[0, cell] == pytest.approx(y[inside].mean())
    counts = np.histogram(x, edges)[0]
    assert (found.values[0] * counts).sum() / len(y) == pytest.approx(y.mean())


def test_a_spike_changes_its_own_cell_alone() -> None:
    x = np.arange(1_000.0)
    calm, spiked = np.sin(x), np.sin(x)
    spiked[100] = 1e300
    before, after = (aligned([Member(x, y)], most=100).values[0] for y in (calm, spiked))
    assert (before != after).nonzero()[0].tolist() == [10]


def test_a_cell_without_points_holds_the_last_raw_point_before_it() -> None:
    dense, sparse = Member(np.arange(1_000.0), np.zeros(1_000)), made({100: 1, 490: 7, 510: 3})
    found = aligned([dense, sparse], most=100)
    shown = dict(zip(np.round(found.x, 1), found.values[1], strict=True))
    assert shown[min(shown, key=lambda at: abs(at - 300))] == 1
    assert shown[min(shown, key=lambda at: abs(at - 502))] == 7
    assert np.isnan(shown[min(shown)]) and np.isnan(shown[max(shown)])


def test_cells_of_a_logarithmic_axis_are_equal_in_ratio_and_leave_out_what_has_no_logarithm() -> None:
    x = np.arange(0.0, 5_000.0)
    found = aligned([member(x, x, log=True)], log=True, most=40)
    assert found.x[0] >= 1
    assert found.cell == pytest.approx(4_999 ** (1 / 40))
    assert np.all(np.diff(np.log(found.x)) > 0)


@pytest.mark.parametrize("members", [[], [made({})], [made({}), made({})]])
def test_runs_without_points_align_to_nothing(members: list[Member]) -> None:
    found: Aligned = aligned(members)
    assert found.values.shape == (len(members), 0)
