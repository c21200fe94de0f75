"""The points behind compared curves: groups from all raw points whatever else is shown, single runs thinned, every
axis.
"""

import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from app.charts import curve_data, curve_points
from app.charts.curve_charts import GroupLine, groups_frame, of_groups
from app.charts.curve_data import curves, group_line, in_cells
from app.charts.plotly_figures import look
from app.compare.groups import groups_of, lines_of
from app.compare.zoom import joined, spliced
from engine.analysis.statistics.groups import Spread, Statistic
from engine.analysis.statistics.intervals import MOST_CELLS, Aligned
from engine.home import Home
from engine.recorder import Point
from engine.store import RankBatch, Reader, Store
from engine.store.curves.multi_run import MultiRunReader
from tests import scipy_stats as stats
from tests.labs import compare
from tests.labs.compare import ACCURACY, LOSS

STEPS = 3_000


@pytest.fixture
def ids(home: Home) -> list[int]:
    """Three long runs with 2 trainers, two short ones with 4, and a reference."""
    curve_data.forget()
    with Store.open(home) as store:
        found = [compare.add(store, trainers=2, seed=seed, steps=STEPS, level=1 + seed / 5) for seed in range(3)]
        return [
            *found,
            *(compare.add(store, trainers=4, seed=seed, ranks=2) for seed in range(2)),
            compare.add(store, "reference", steps=200),
        ]


@pytest.fixture
def reader(home: Home, ids: list[int]) -> Iterator[Reader]:
    with Reader.open(home) as reader:
        yield reader


def raw(reader: Reader, run_id: int) -> np.ndarray:
    return np.array(reader.curves.series(run_id, [LOSS])[0].values)


def test_a_groups_band_and_a_stretch_of_it_are_scipys_on_the_raw_points(reader: Reader, ids: list[int]) -> None:
    runs = reader.runs.some(ids[:3])
    edges = np.linspace(0, STEPS - 1, MOST_CELLS + 1)
    cell = np.minimum(np.searchsorted(edges, np.arange(STEPS), side="right") - 1, MOST_CELLS - 1)
    points = [raw(reader, run.id) for run in runs]
    means = np.array([[each[cell == at].mean() for at in range(MOST_CELLS)] for each in points])
    values, line = group_line(reader, runs, LOSS, "step", "mean", "se")
    assert values.values == pytest.approx(means)
    assert line.centre == pytest.approx(means.mean(axis=0))
    assert line.high - line.centre == pytest.approx(stats.sem(means, axis=0))
    groups = groups_of(reader.runs.some(ids[:3]), ["trainers"])
    (whole,) = lines_of(reader, groups, LOSS, "step", "mean", "se", log=False)
    (fine,) = lines_of(reader, groups, LOSS, "step", "mean", "se", log=False, within=(1000.0, 1200.0))
    assert whole and fine
    points = np.stack([raw(reader, run_id)[1000:1201] for run_id in ids[:3]])
    assert fine.values.x.tolist() == list(range(1000, 1201))
    assert fine.line.centre == pytest.approx(points.mean(axis=0))
    assert fine.line.high - fine.line.centre == pytest.approx(stats.sem(points, axis=0))
    joint = joined(whole, fine)
    assert (
        joint.values.x.size
        == joint.line.centre.size
        == joint.line.count.size
        == joint.values.values.shape[1]
        > MOST_CELLS
    )
    assert (np.diff(joint.values.x) > 0).all()
    assert joined(whole, None) is whole


@pytest.mark.parametrize(("statistic", "spread"), [("mean", "sd"), ("median", "range"), ("iqm", "boot")])
def test_a_group_does_not_change_with_what_else_is_shown(
    reader: Reader, ids: list[int], statistic: Statistic, spread: Spread
) -> None:
    def two_trainers(shown: list[int]) -> list[list[float]]:
        curve_data.forget()
        groups = groups_of(reader.runs.some(shown), ["trainers"])
        lines = lines_of(reader, groups, LOSS, "step", statistic, spread, log=False)
        (line,) = [line for line, group in zip(lines, groups, strict=True) if group.name == "trainers 2"]
        assert line is not None
        return [line.values.x.tolist(), line.line.centre.tolist(), line.line.low.tolist(), line.line.high.tolist()]

    alone = two_trainers(ids[:3])
    assert len(alone[0]) == MOST_CELLS
    assert two_trainers(ids) == alone
    assert two_trainers([ids[5], *ids[:4]]) == alone


def test_what_is_kept_gives_way_to_news_and_to_a_narrower_share(
    home: Home, reader: Reader, ids: list[int], store: Store
) -> None:
    on = compare.add(store, trainers=2, ended=False, steps=50)
    runs = reader.runs.some([on])
    before = group_line(reader, runs, LOSS, "step", "mean", "none")[0]
    assert group_line(reader, reader.runs.some([on]), LOSS, "step", "mean", "none")[0] is before
    store.worker.write(on, [RankBatch(0, [Point(LOSS, 50, 7.5, 3.0, 1.2)])])
    after = group_line(reader, reader.runs.some([on]), LOSS, "step", "mean", "none")[0]
    assert (len(before.x), len(after.x), after.values[0, -1]) == (50, 51, 7.5)
    on = compare.add(store, trainers=2, ended=False, steps=50)
    (before,) = curves(reader, reader.runs.some([on]), LOSS, "step")
    assert curves(reader, reader.runs.some([on]), LOSS, "step")[0].y is before.y
    assert not np.array_equal(curves(reader, reader.runs.some([on]), LOSS, "time")[0].x, before.x)
    store.worker.write(on, [RankBatch(0, [Point(LOSS, 50, 7.5, 3.0, 1.2)])])
    (after,) = curves(reader, reader.runs.some([on]), LOSS, "step")
    assert (len(before.y), len(after.y), after.y[-1], after.total) == (50, 51, 7.5, 51)
    alone, among = (
        curves(reader, reader.runs.some([ids[0]]), LOSS, "step")[0],
        curves(reader, reader.runs.some(ids), LOSS, "step")[0],
    )
    assert len(alone.x) > len(among.x) and alone.run_id == among.run_id == ids[0]


def test_ranks_are_one_member_of_their_group_and_a_curve_each_alone(reader: Reader, ids: list[int]) -> None:
    values, _ = group_line(reader, reader.runs.some([ids[3]]), LOSS, "step", "mean", "none")
    both = [np.array(series.values) for series in reader.curves.series(ids[3], [LOSS])]
    assert len(both) == 2
    assert values.values == pytest.approx(np.mean(both, axis=0)[None])
    found = curves(reader, reader.runs.some(ids), LOSS, "step")
    assert [(curve.run_id, curve.rank) for curve in found] == [
        (ids[0], 0),
        (ids[1], 0),
        (ids[2], 0),
        (ids[3], 0),
        (ids[3], 1),
        (ids[4], 0),
        (ids[4], 1),
        (ids[5], 0),
    ]
    assert [curve.total for curve in found[:4]] == [STEPS, STEPS, STEPS, 120]
    assert all(len(curve.x) <= curve_data.POINTS // len(found) for curve in found)
    whole = raw(reader, ids[0])
    assert all(whole[int(step)] == value for step, value in zip(found[0].x, found[0].y, strict=True))
    assert (found[0].y.min(), found[0].y.max()) == (whole.min(), whole.max())
    (curve,) = curves(reader, reader.runs.some([ids[5]]), LOSS, ACCURACY)
    tests = reader.curves.series(ids[5], [ACCURACY])[0]
    whole = raw(reader, ids[5])
    assert len(curve.x) == 200 - tests.steps[0]
    assert curve.x[0] == tests.values[0] and curve.x[-1] == tests.values[3]
    assert curve.y.tolist() == whole[tests.steps[0] :].tolist()


@pytest.mark.parametrize(
    ("axis", "last"), [("step", 119), ("time", 119 / 20), ("passes", 119 / 50), ("updates", 2 * 119)]
)
def test_the_same_points_lie_along_every_axis(reader: Reader, ids: list[int], axis: str, last: float) -> None:
    runs = reader.runs.some([ids[3]])
    for curve in curves(reader, runs, LOSS, axis):
        assert curve.x[-1] == pytest.approx(last)
        assert len(curve.x) == 120
    assert group_line(reader, runs, LOSS, axis, "mean", "none")[0].x[-1] == pytest.approx(last)


def test_what_is_not_finite_or_not_recorded_is_a_gap_and_has_no_part_in_its_group(
    home: Home, reader: Reader, ids: list[int], store: Store
) -> None:
    run_id = compare.add(store, trainers=2, nan_at=7)
    (curve,) = curves(reader, reader.runs.some([run_id]), LOSS, "step")
    assert (np.isnan(curve.y).nonzero()[0].tolist(), curve.nonfinite) == ([7], 1)
    values, line = group_line(reader, reader.runs.some([run_id]), LOSS, "step", "mean", "sd")
    assert np.isnan(values.values[0, 7]) and np.isfinite(values.values[0, 8]) and line.count[7] == 0
    bare = compare.add(store, trainers=2, steps=0)
    groups = groups_of(reader.runs.some([ids[0], bare]), ["trainers"])
    (line,) = lines_of(reader, groups, LOSS, "step", "mean", "sd", log=False)
    assert line is not None and list(line.members) == [ids[0]]
    assert lines_of(reader, groups, "no/such", "step", "mean", "sd", log=False) == [None]


@pytest.mark.parametrize(("axis", "scale"), [("passes", 1), ("time", 2), ("step", 100)])
@pytest.mark.parametrize("log", [False, True])
def test_a_drawn_mean_of_staggered_tests_has_no_jump(
    home: Home, reader: Reader, store: Store, axis: str, scale: float, log: bool
) -> None:
    groups = groups_of(reader.runs.some(compare.staggered(store)), ["trainers"])
    (line,) = lines_of(reader, groups, ACCURACY, axis, "mean", "sd", log=log)
    assert line is not None and (line.count, line.extent) == (3, "")
    band, members, centre = of_groups([line], [look(0)]).figure["data"]
    drawn = np.isfinite(centre["y"])
    assert centre["x"][drawn] / scale == pytest.approx(
        [x for x in sorted(5 * test + start for test in range(1, 13) for start in (0, 0.03, 0.05)) if 5.05 <= x <= 60]
    )
    assert centre["y"][drawn] == pytest.approx(50 + centre["x"][drawn] / scale / 2)
    assert band["y"].min() == pytest.approx(42.525) and band["y"].max() == pytest.approx(90)
    assert len(members["x"]) == 3 * (36 + 1) and np.nanmin(members["y"]) == pytest.approx(42.5)
    frame = groups_frame([line], axis)
    assert frame["value"].to_numpy() == pytest.approx(50 + frame[axis] / scale / 2) and set(frame["n"]) == {3}
    (fine,) = lines_of(reader, groups, ACCURACY, axis, "mean", "sd", log=log, within=(5.04 * scale, 10.01 * scale))
    assert fine is not None and set(fine.line.count) == {3}
    joint = joined(line, fine).line
    assert joint.centre.size == line.line.centre.size and set(joint.count) == {0, 3}


def test_a_line_ends_with_its_first_run_and_says_so_and_running_ones_wait(
    home: Home, reader: Reader, store: Store
) -> None:
    def drawn(ids: list[int]) -> GroupLine:
        (found,) = lines_of(
            reader, groups_of(reader.runs.some(ids), ["trainers"]), ACCURACY, "passes", "mean", "ci", log=False
        )
        assert found is not None
        return found

    short = compare.staggered(store, last=(60, 30, 60))
    found = drawn(short)
    there = found.line.count > 0
    assert (found.values.x[there].min(), found.values.x[there].max()) == (5.05, 30.03)
    assert found.line.centre[there] == pytest.approx(50 + found.values.x[there] / 2)
    assert (
        found.extent
        == f"trainers 2: of its 3 runs, the line is drawn to 30.03 passes, where run {short[1]} (finished) ends."
    )
    assert np.isfinite(found.values.values[0]).sum() > there.sum(), "the other runs are drawn to their own ends"
    on = compare.staggered(store, last=(60, 5), ended=False)
    both_on = drawn(on)
    assert both_on.count == 2 and "ends" in both_on.extent, "while none is complete, all count"
    beside = drawn([short[0], *on])
    assert beside.count == 1 and beside.members == [short[0], *on]
    assert beside.line.centre == pytest.approx(40 + beside.values.x / 2, nan_ok=True)
    assert beside.extent == f"trainers 2: runs {on[0]}, {on[1]} will count when complete."
    early, late = (compare.add(store, trainers=2, seed=seed, steps=0) for seed in (7, 8))
    for run_id, at in ((early, 1.0), (late, 2.0)):
        store.worker.write(run_id, [RankBatch(0, [Point(ACCURACY, 1, 50.0, at, at)])])
    apart = drawn([early, late])
    assert set(apart.line.count) == {0} and "have no part of the x-axis in common" in apart.extent
    assert groups_frame([apart], "passes").empty


def test_bytes_are_all_ranks_together_and_go_on_where_a_run_was_resumed(
    home: Home, reader: Reader, store: Store
) -> None:
    run_id = compare.add(store, "async_sgd", trainers=2, ranks=3)  # points each 1/20 s
    whole, resumed = (
        [Point("perf/exchanged", 9, value, time_s) for time_s, value in points]
        for points in (((2, 4), (4, 8)), ((2, 6), (3, 1), (4, 3)))
    )
    store.worker.write(run_id, [RankBatch(1, list(whole)), RankBatch(2, list(resumed))])
    runs = reader.runs.some([run_id])
    curve, *_ = curves(reader, runs, LOSS, "bytes")
    assert curve.x[[0, 20, 40, 60, 80, 119]].tolist() == pytest.approx([0, 5, 10, 6 + 7, 8 + 9, 8 + 9])
    values, _ = group_line(reader, runs, LOSS, "bytes", "mean", "none")
    assert (values.x[0], values.x[-1]) == pytest.approx((0, 17))


@pytest.mark.parametrize("axis", ["step", "time", "passes", "updates"])
def test_a_stretch_brings_every_point_in_it_and_what_lies_outside_stays(
    reader: Reader, ids: list[int], axis: str
) -> None:
    runs = reader.runs.some(ids[:1])
    (whole,) = curves(reader, runs, LOSS, axis)
    low, high = 0.5 * whole.x[-1], 0.55 * whole.x[-1]
    (fine,) = curves(reader, runs, LOSS, axis, (float(low), float(high)))
    every = raw(reader, ids[0])
    joint = spliced(whole, fine)
    inside = (joint.x >= low) & (joint.x <= high)
    assert inside.sum() >= 0.05 * STEPS - 2 > ((whole.x >= low) & (whole.x <= high)).sum()
    first = int(np.flatnonzero(every == joint.y[inside][0])[0])
    assert joint.y[inside].tolist() == every[first : first + inside.sum()].tolist()
    assert (np.diff(joint.x) > 0).all() and (joint.x[0], joint.x[-1]) == (whole.x[0], whole.x[-1])


def test_a_stretch_and_another_metric_as_axis_hold_where_a_run_was_resumed(home: Home, ids: list[int]) -> None:
    with Store.open(home) as store:
        run_id = compare.add(store, trainers=2, seed=9, steps=0)
        points = [
            Point(name, step - back, scale * step, (step - back) / 4)
            for step in range(2 * STEPS)
            for back in [1_500 * (step >= STEPS)]
            for name, scale in ((LOSS, 1.0), ("train/other", 2.0))
        ]
        store.worker.write(run_id, [RankBatch(0, points)])
    with Reader.open(home) as reader:
        runs = reader.runs.some([run_id])
        for axis, scale in (("step", 1.0), ("time", 0.25)):
            (whole,) = curves(reader, runs, LOSS, axis)
            (fine,) = curves(reader, runs, LOSS, axis, (2_000 * scale, 2_100 * scale))
            joint = spliced(whole, fine)
            assert {*whole.y} | {*range(2_000, 2_101), *range(3_500, 3_601)} <= {*joint.y}
            assert joint.y.tolist() == sorted({*joint.y.tolist()}), "in the order of recording, each point once"
        against, y = curve_points.all_points(
            reader, runs[0], curve_points.recorded(reader, runs, LOSS)[run_id][0], "train/other"
        )
        assert (against[[0, 1_000]].tolist(), against[-1]) == ([0.0, 2_000.0], 2 * y[-1])
        assert against[2_000] == 2 * 3_500, "of two values at a step the later one counts"


LENGTH = 2_400


def write(
    store: Store,
    rank: int,
    run_id: int,
    time_of: Callable[[int], float],
    value_of: Callable[[int], float],
    passes: float | None = 500.0,
) -> None:
    points = [
        Point(LOSS, step, value_of(step), time_of(step), step / passes if passes else None) for step in range(LENGTH)
    ]
    store.worker.write(run_id, [RankBatch(rank, points)])


@pytest.fixture
def odd_ids(home: Home, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A run of two ranks with a pause and a stretch that is not finite, one of one rank that begins later, one that
    recorded nothing.
    """
    curve_data.forget()
    monkeypatch.setattr(curve_data, "LONG", 1_000)
    with Store.open(home) as store:
        first, second, bare = (compare.add(store, trainers=2, seed=seed, steps=0) for seed in range(3))
        for rank in (0, 1):
            write(
                store,
                rank,
                first,
                lambda step: step / 4 + 30 * (step > 1_200),
                lambda step: math.nan if 400 <= step < 420 else math.sin(step / 20),
            )
        write(store, 0, second, lambda step: 3 + step / 5, lambda step: math.cos(step / 15) + step / 1e4)
    return [first, second, bare]


def both(home: Home, odd_ids: list[int], axis: str, *, log: bool = False) -> tuple[Aligned | None, Aligned]:
    """Return a group as the store adds it up, and as its raw points give it."""
    with Reader.open(home) as reader:
        runs = reader.runs.some(odd_ids)
        who = curve_points.recorded(reader, runs, LOSS)
        added = in_cells(reader, runs, who, curve_points.PLAIN[axis], log=log)
        long, curve_data.LONG = curve_data.LONG, 10**9
        try:
            return added, curve_data.group(reader, runs, LOSS, axis, log=log)
        finally:
            curve_data.LONG = long
            curve_data.forget()


@pytest.mark.parametrize("axis", ["step", "time", "passes"])
def test_cells_added_up_by_the_store_are_those_of_the_points(home: Home, odd_ids: list[int], axis: str) -> None:
    added, plain = both(home, odd_ids, axis)
    assert added is not None
    assert added.x == pytest.approx(plain.x, rel=1e-12)
    assert added.values == pytest.approx(plain.values, rel=1e-9, nan_ok=True)
    assert (added.exact, added.cell) == (plain.exact, pytest.approx(plain.cell))
    assert np.isnan(added.values[2]).all() and np.isnan(added.values[0]).any()


@pytest.mark.parametrize("which", [slice(0, 3), slice(1, 2)], ids=["from 0", "from above 0"])
def test_a_logarithmic_axis_has_the_same_cells(home: Home, odd_ids: list[int], which: slice) -> None:
    added, plain = both(home, odd_ids[which], "time", log=True)
    assert added is not None and added.x == pytest.approx(plain.x, rel=1e-12)
    assert added.values == pytest.approx(plain.values, rel=1e-9, nan_ok=True)


def test_points_that_were_read_lately_are_not_asked_for_again(
    home: Home, odd_ids: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Reader.open(home) as reader:
        runs = reader.runs.some(odd_ids[:2])
        curve_data.group(reader, runs, LOSS, "step", within=(100.0, 200.0))  # a zoom reads the points
        monkeypatch.setattr(
            MultiRunReader, "cells", lambda *_: pytest.fail("the store was asked to add up what is here")
        )
        assert curve_data.group(reader, runs, LOSS, "step").values.shape == (2, MOST_CELLS)


def test_what_goes_back_or_lies_at_few_positions_or_nowhere_is_left_to_the_points(
    home: Home, odd_ids: list[int]
) -> None:
    with Store.open(home) as store:
        back, few, nowhere, once = (compare.add(store, trainers=2, seed=seed, steps=0) for seed in range(3, 7))
        write(store, 0, back, lambda step: abs(step - 1_200) / 20, float)
        write(store, 0, few, lambda step: float(step // 200), float)
        write(store, 0, once, lambda step: 0.0 if step == 1_100 else float(step), float)
        write(store, 0, nowhere, float, float, passes=None)
    assert both(home, [back], "time")[0] is None and both(home, [back], "step")[0] is not None
    added, plain = both(home, [few], "time")
    assert added is None and plain.exact and plain.x.size == 12 < MOST_CELLS
    assert both(home, [nowhere], "passes")[0] is None and both(home, [once], "time")[0] is None
    with Store.open(home) as store:
        short = compare.add(store, trainers=2, seed=6, steps=200)
    assert both(home, [odd_ids[1], short], "step")[0] is None
