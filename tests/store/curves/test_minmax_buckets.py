"""A long curve is drawn from the corners kept beside it, and looks as if all its points had been read; a zoom shows
more of a part.
"""

import math
import random
import time
from collections.abc import Callable

import pytest

from engine.home import Home
from engine.recorder import Point
from engine.store import RankBatch, Reader, Series, Store, Stretch
from engine.store.curves import downsample
from engine.store.curves.downsample import kept
from engine.store.schema import minmax_buckets
from tests.store.curves.test_series import walk

Running = Callable[..., int]
LOSS = ["train/loss"]


def record(store: Store, run_id: int, values: list[float], first: int = 0, rank: int = 0) -> None:
    """Write points in batches of odd sizes, another metric's between them."""
    chance, at = random.Random(len(values)), 0
    while at < len(values):
        size = chance.randint(1, 700)
        steps = range(first + at, first + min(at + size, len(values)))
        points = [Point("train/loss", step, values[step - first], step / 10, step / 1000) for step in steps]
        store.worker.write(run_id, [RankBatch(rank, [*points, Point("test/loss", at, 1.0, 1.0)])])
        at += size


def drawn(reader: Reader, run_id: int, most: int | None, within: Stretch | None = None) -> Series:
    return reader.curves.series(run_id, LOSS, max_points=most, within=within)[0]


def same(one: list[float], other: list[float]) -> bool:
    return list(map(repr, one)) == list(map(repr, other))


@pytest.mark.parametrize("nan_share", [0.0, 0.02])
@pytest.mark.parametrize("count", [257, 5_000, 30_011])
def test_the_corners_draw_what_all_points_would(
    store: Store, reader: Reader, running: Running, count: int, nan_share: float
) -> None:
    run_id, values = running(), walk(count, nan_share=nan_share)
    values[count // 2], values[count // 3] = math.inf, -math.inf
    record(store, run_id, values)
    for most in (20, 60, 100, 1000):
        found, wanted = drawn(reader, run_id, most), kept(values, most)
        assert found.steps == wanted
        assert same(found.values, [values[step] for step in wanted])
        assert (found.total, len(found.ids) <= most) == (count, True)


def test_a_point_left_out_never_comes_back_while_the_curve_grows(
    store: Store, reader: Reader, running: Running
) -> None:
    run_id, values, gone = running(), walk(9_000, 5), set[int]()
    for at in range(0, 9_000, 450):
        record(store, run_id, values[at : at + 450], first=at)
        shown = set(drawn(reader, run_id, 40).steps)
        assert not shown & gone
        gone |= set(range(at + 450)) - shown


@pytest.mark.parametrize(("axis", "scale"), [("step", 1.0), ("time_s", 0.1), ("passes", 0.001)])
def test_a_stretch_is_thinned_by_itself(
    store: Store, reader: Reader, running: Running, axis: str, scale: float
) -> None:
    run_id, values = running(), walk(20_000, 7)
    record(store, run_id, values)
    part = Stretch(axis, 8_000 * scale, 9_000 * scale)  # type: ignore[arg-type]
    whole, zoomed = drawn(reader, run_id, 100), drawn(reader, run_id, 100, part)
    inside = [step for step in zoomed.steps if 8_000 <= step <= 9_000]
    assert len(inside) > 3 * len([step for step in whole.steps if 8_000 <= step <= 9_000])
    assert (zoomed.steps[0] < 8_000, zoomed.steps[-1] > 9_000, len(zoomed.steps) <= 100, zoomed.total) == (
        True,
        True,
        True,
        20_000,
    )
    assert zoomed == drawn(reader, run_id, 100, part)
    near = drawn(reader, run_id, 1000, Stretch(axis, 8_100 * scale, 8_300 * scale))  # type: ignore[arg-type]
    assert near.steps == list(range(near.steps[0], near.steps[-1] + 1))
    assert (near.steps[0], near.steps[-1]) == (8_099, 8_301)


def test_a_stretch_of_a_short_curve_or_past_either_end_is_its_neighbour(
    store: Store, reader: Reader, running: Running
) -> None:
    run_id = running()
    record(store, run_id, walk(3_000))
    assert drawn(reader, run_id, 100, Stretch("step", 5_000, 6_000)).steps == [2_999]
    assert drawn(reader, run_id, 100, Stretch("step", -50, -1)).steps == [0]
    assert drawn(reader, run_id, 100, Stretch("step", -math.inf, math.inf)).steps == drawn(reader, run_id, 100).steps
    assert drawn(reader, run_id, None, Stretch("step", 10, 12)).steps == [9, 10, 11, 12, 13]
    run_id = running()
    record(store, run_id, walk(40))
    assert drawn(reader, run_id, 100, Stretch("step", 10, 12)).steps == [9, 10, 11, 12, 13]


def resumed(step: int) -> float:
    return step - 2_000 * (step >= 3_000)


def sawtooth(step: int) -> float:
    return step % 700


def outlier(step: int) -> float:
    return 3.0 if step in (1_500, 4_321) else float(step)


@pytest.mark.parametrize("at", [resumed, sawtooth, outlier])
@pytest.mark.parametrize("count", [600, 6_000])
def test_a_stretch_of_an_axis_that_goes_back_has_every_part_in_it(
    store: Store, reader: Reader, running: Running, at: Callable[[int], float], count: int
) -> None:
    run_id, values = running(), walk(count, 9)
    for first in range(0, count, 500):  # the caches hold what came before
        points = [Point("train/loss", step, values[step], at(step)) for step in range(first, min(count, first + 500))]
        store.worker.write(run_id, [RankBatch(0, points)])
        assert drawn(reader, run_id, 100, Stretch("time_s", 0, 5)).steps[0] == 0
    for low, high in ((0.0, 10.0), (1_400.0, 1_600.0), (2_000.0, 2_000.5)):
        inside = {step for step in range(count) if low <= at(step) <= high}
        for most in (None, 100, 1_000):
            steps = drawn(reader, run_id, most, Stretch("time_s", low, high)).steps
            assert most is None or len(steps) <= most
            if most is None or len(inside) <= most // 5:
                assert inside <= {*steps}
            parts = [step for step in inside if step - 1 not in inside]
            if len(inside) >= 100 * len(parts):
                assert all(any(first <= step < first + 100 for step in steps) for first in parts)


def test_corners_are_taken_over_by_a_resumed_run_and_the_same_when_written_anew(
    store: Store, reader: Reader, running: Running
) -> None:
    parent, values = running(), walk(4_000)
    record(store, parent, values)
    store.claims.end(parent, "lost", "The worker was killed.")
    child = running(parent_id=parent)
    store.worker.go_on_from_parent(child, step=2_999, time_s=1e9)
    record(store, child, values[3_000:], first=3_000)
    assert drawn(reader, child, 100).steps == drawn(reader, parent, 100).steps == kept(values, 100)
    run_id = running()
    record(store, run_id, walk(6_000, nan_share=0.01))
    before = [tuple(row) for row in store.db.rows("SELECT * FROM buckets ORDER BY metric_id, bucket")]
    with store.db.change() as connection:
        for row in store.db.rows("SELECT id FROM metrics"):
            minmax_buckets.rebuild(connection, row["id"])
    assert [tuple(row) for row in store.db.rows("SELECT * FROM buckets ORDER BY metric_id, bucket")] == before
    assert len(before) > 20


def test_a_store_from_before_corners_gets_them_when_it_is_brought_up_to_date(
    home: Home, store: Store, reader: Reader, running: Running
) -> None:
    run_id = running()
    record(store, run_id, walk(3_000))
    before = drawn(reader, run_id, 20)
    reader.close()
    for statement in (
        "DROP TABLE buckets",
        "ALTER TABLE metrics DROP COLUMN thinned",
        "DELETE FROM _sqlite_migrations WHERE name = 'corners_of_long_curves'",
    ):
        store.db.connection.execute(statement)
    store.close()
    Store.open(home).close()
    with Reader.open(home) as again:
        assert drawn(again, run_id, 20) == before
        assert again.db.rows("SELECT count(*) FROM buckets")[0][0] > 12


@pytest.mark.long
def test_a_chart_of_a_million_points_comes_within_300_ms_cold_and_50_warm(
    store: Store, reader: Reader, running: Running
) -> None:
    run_id, values = running(), walk(1_000_000)
    for at in range(0, len(values), 10_000):
        store.worker.write(
            run_id,
            [RankBatch(0, [Point("train/loss", step, values[step], step / 10) for step in range(at, at + 10_000)])],
        )
    times = []
    for stretch in (None, None, Stretch("step", 200_000, 800_000), Stretch("step", 400_000, 440_000)):
        start = time.perf_counter()
        assert 100 < len(drawn(reader, run_id, 1000, stretch).ids) <= 1000
        times.append(time.perf_counter() - start)
    assert times[0] < 0.3
    assert max(times[1:]) < 0.05, times


MOST = 1_000


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Forget what is kept; hold how many points each read brought from then on."""
    downsample.forget()
    seen: list[int] = []
    read = downsample._read

    def noting(cursor: object, metric_id: int, first_id: int) -> downsample.CachedCurve:
        found = read(cursor, metric_id, first_id)  # type: ignore[arg-type]
        seen.append(found.ids.size)
        return found

    monkeypatch.setattr(downsample, "_read", noting)
    return seen


@pytest.mark.parametrize("nan_share", [0.0, 0.05, 1.0])
def test_only_what_is_new_is_read_and_the_curve_is_drawn_as_from_all(
    store: Store, reader: Reader, running: Running, reads: list[int], nan_share: float
) -> None:
    run_id, values = running(), walk(9_000, nan_share=nan_share)
    values[1_999], values[2_500] = math.inf, -math.inf
    for at in range(0, 9_000, 500):
        record(store, run_id, values[at : at + 500], first=at)
        assert drawn(reader, run_id, MOST).steps == kept(values[: at + 500], MOST)
    assert reads == [1_500, *[501] * 15], (
        "two answers hold all there is; then all is read once, and from the last known point on"
    )
    assert drawn(reader, run_id, 400).steps == kept(values, 400)
    assert reads[-1] == 1, "fewer points of the same curve need no new look at it"


def test_each_rank_is_a_curve_of_its_own(store: Store, reader: Reader, running: Running, reads: list[int]) -> None:
    run_id, ranks = running(), [walk(2_000, 1), walk(3_000, 2)]
    for rank, values in enumerate(ranks):
        record(store, run_id, values, rank=rank)
    for _ in range(2):
        found = reader.curves.series(run_id, ["train/loss"], max_points=MOST)
        assert [series.steps for series in found] == [kept(values, MOST) for values in ranks]
    assert reads == [2_000, 3_000, 1, 1]


def test_a_snapshot_older_than_what_is_known_has_its_own_points(
    home: Home, store: Store, reader: Reader, running: Running, reads: list[int]
) -> None:
    run_id, values = running(), walk(4_000, 3)
    record(store, run_id, values[:3_000])
    with reader.db.snapshot():
        assert reader.runs.one(run_id).id == run_id  # a snapshot is of the moment of its first look
        record(store, run_id, values[3_000:], first=3_000)
        with Reader.open(home) as newer:
            assert drawn(newer, run_id, MOST).steps == kept(values, MOST)
        assert drawn(reader, run_id, MOST).steps == kept(values[:3_000], MOST)
    assert drawn(reader, run_id, MOST).steps == kept(values, MOST)
    assert reads[1] == 1, (
        "of the older moment nothing had to be read but the point that shows that it is the same curve"
    )


@pytest.mark.parametrize("count", [2_000, 3_000, 4_000])
def test_another_store_in_the_same_place_is_not_taken_for_the_first(
    home: Home, store: Store, running: Running, reads: list[int], count: int
) -> None:
    run_id = running()
    record(store, run_id, walk(3_000, 4))
    with Reader.open(home) as reader:
        drawn(reader, run_id, MOST)
    values = [value + 0.5 for value in walk(count, 5)]
    with store.db.change() as connection:
        connection.execute("DELETE FROM buckets")
        connection.execute("DELETE FROM points")
        connection.execute("DELETE FROM metrics")
        connection.execute("UPDATE runs SET last_point_id = 0")
    record(store, run_id, values)
    with Reader.open(home) as reader:
        assert drawn(reader, run_id, MOST).steps == kept(values, MOST)


def test_what_is_kept_is_bounded_and_what_was_asked_for_last_stays(
    store: Store, reader: Reader, running: Running, reads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(downsample, "KEPT_BYTES", 2 * 16 * 2_000)
    runs = [running() for _ in range(3)]
    for run_id in runs:
        record(store, run_id, walk(2_000, run_id))
    for run_id in (*runs, runs[2], runs[1], runs[0]):
        assert drawn(reader, run_id, MOST).steps == kept(walk(2_000, run_id), MOST)
    assert reads == [2_000, 2_000, 2_000, 1, 1, 2_000]
