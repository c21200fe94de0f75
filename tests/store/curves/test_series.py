"""Curves: what is new since an id, in order, through the points' own key, and thinned where asked."""

import math
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from engine.recorder import Point
from engine.store import MachineSample, RankBatch, Reader, Store
from engine.store.curves.downsample import kept

Points = list[tuple[int, float]]


@pytest.fixture
def batch(store: Store) -> Callable[..., None]:
    """Write `count` points of each metric by each of two ranks, and one metric of the whole run."""

    def write(run_id: int, start: int, count: int) -> None:
        def made(name: str, rank: int) -> list[Point]:
            return [Point(name, step, step * 10.0 + rank, step / 10) for step in range(start, start + count)]

        batches = [RankBatch(rank, [*made("train/loss", rank), *made("test/loss", rank)]) for rank in (0, 1)]
        store.worker.write(run_id, batches, run_points=[Point("perf/samples_per_second", start, 5.0, 0.0)])

    return write


METRICS = ["train/loss", "test/loss", "perf/samples_per_second"]


def test_polling_by_the_highest_id_seen_gives_every_point_once_and_in_order(
    reader: Reader, running: Callable[..., int], batch: Callable[..., None]
) -> None:
    run_id, other = running(), running()
    seen: dict[tuple[str, int | None], list[int]] = {}
    last = 0
    for round_ in range(6):
        batch(other, round_, 3)
        batch(run_id, round_ * 4, 4)
        new = reader.curves.series(run_id, METRICS, after_id=last)
        assert len({id for series in new for id in series.ids}) == 4 * 4 + 1
        last = max(id for series in new for id in series.ids)
        for series in new:
            seen.setdefault((series.metric, series.rank), []).extend(series.steps)
            assert series.total == len(seen[series.metric, series.rank])
    assert seen.pop(("perf/samples_per_second", None)) == [0, 4, 8, 12, 16, 20]
    assert seen == {(name, rank): list(range(24)) for name in ("train/loss", "test/loss") for rank in (0, 1)}
    assert [series.ids for series in reader.curves.series(run_id, METRICS, after_id=last)] == [[]] * 5


def test_points_come_by_their_key_without_a_sort_only_of_what_is_asked(
    reader: Reader, running: Callable[..., int], batch: Callable[..., None], store: Store
) -> None:
    run_id = running()
    batch(run_id, 0, 1)
    assert {series.metric for series in reader.curves.series(run_id, ["test/loss", "no/such"])} == {"test/loss"}
    assert reader.curves.series(run_id, []) == []
    run_id, other = running(), running()
    batch(run_id, 0, 3)
    store.worker.write(other, [RankBatch(0, [Point("train/loss", 1, 0.5, 0.1, passes=0.25)])])
    assert not reader.details.counts_passes(run_id)
    assert reader.details.counts_passes(other)
    plan = " ".join(
        row["detail"]
        for row in reader.db.rows("EXPLAIN QUERY PLAN SELECT * FROM points WHERE metric_id = 1 AND id > 5 ORDER BY id")
    )
    assert plan == "SEARCH points USING PRIMARY KEY (metric_id=? AND id>?)"
    plan = " ".join(
        row["detail"]
        for row in reader.db.rows("EXPLAIN QUERY PLAN SELECT * FROM metrics WHERE run_id = 1 AND name IN ('a', 'b')")
    )
    assert plan == "SEARCH metrics USING INDEX metrics_run (run_id=? AND name=?)"
    plan = " ".join(row["detail"] for row in reader.db.rows("EXPLAIN QUERY PLAN SELECT max(version) FROM runs"))
    assert "runs_version" in plan


def test_a_thinned_series_is_part_of_the_whole_one_and_says_how_many_there_are(
    reader: Reader, running: Callable[..., int], batch: Callable[..., None]
) -> None:
    run_id = running()
    batch(run_id, 0, 3000)
    whole, thin = (reader.curves.series(run_id, ["train/loss"], max_points=most)[1] for most in (None, 100))
    assert (whole.total, thin.total, len(whole.ids)) == (3000, 3000, 3000)
    assert 40 < len(thin.ids) <= 100
    assert (thin.ids[0], thin.ids[-1]) == (whole.ids[0], whole.ids[-1])
    rows = set(zip(whole.ids, whole.steps, whole.times_s, whole.passes, whole.values, strict=True))
    assert set(zip(thin.ids, thin.steps, thin.times_s, thin.passes, thin.values, strict=True)) <= rows
    assert thin == reader.curves.series(run_id, ["train/loss"], max_points=100)[1]
    later = reader.curves.series(run_id, ["train/loss"], after_id=whole.ids[1500], max_points=100)[1]
    assert (later.ids[0], len(later.ids) <= 100) == (whole.ids[1501], True)


def test_reading_a_curve_and_its_end_see_one_moment(
    store: Store, reader: Reader, running: Callable[..., int], batch: Callable[..., None]
) -> None:
    run_id = running()
    batch(run_id, 0, 2)
    with reader.db.snapshot():
        before = reader.runs.token()
        batch(run_id, 2, 2)
        assert reader.runs.token() == before
        assert reader.details.summaries(run_id)[-1].count == 2
    assert reader.runs.token() > before
    assert reader.details.summaries(run_id)[-1].count == 4


NAN, INF = math.nan, math.inf


def walk(count: int, seed: int = 0, nan_share: float = 0.0) -> list[float]:
    """Return a random walk with ties, and some NaN where asked."""
    chance, height, values = random.Random(seed), 0.0, []
    for _ in range(count):
        height += chance.choice((-1, 0, 1))
        values.append(NAN if chance.random() < nan_share else height)
    return values


def corners(values: list[float], start: int, stop: int) -> set[int]:
    """Return what is kept of one bucket, the slow way."""
    numbers = [index for index in range(start, stop) if not math.isnan(values[index])]
    missing = [index for index in range(start, stop) if math.isnan(values[index])]
    extremes = {min(numbers, key=values.__getitem__), max(numbers, key=values.__getitem__)} if numbers else set()
    return {start, stop - 1, *extremes, *missing[:1]}


@pytest.mark.parametrize("nan_share", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("count", [101, 128, 999, 1000, 4097])
def test_it_keeps_first_last_least_and_greatest_of_each_bucket(count: int, nan_share: float) -> None:
    values = walk(count, nan_share=nan_share)
    each = 5 if any(map(math.isnan, values)) else 4
    size = next(2**k for k in range(20) if math.ceil(count / 2**k) * each <= 100)
    wanted = set().union(*(corners(values, start, min(start + size, count)) for start in range(0, count, size)))
    assert kept(values, 100) == sorted(wanted)


@pytest.mark.parametrize("nan_share", [0.0, 0.05])
def test_a_point_that_was_left_out_never_comes_back_as_rows_are_appended(nan_share: float) -> None:
    values, gone = walk(700, 3, nan_share), set[int]()
    for count in range(1, len(values) + 1):
        now = set(kept(values[:count], 40))
        assert not now & gone
        gone |= set(range(count)) - now


@pytest.mark.parametrize("most", [5, 6, 7, 40, 1000])
@pytest.mark.parametrize("nan_share", [0.0, 0.5])
def test_it_never_keeps_more_than_asked(most: int, nan_share: float) -> None:
    for count in (0, 1, most - 1, most, most + 1, 2 * most, 4 * most + 3):
        found = kept(walk(count, 1, nan_share), most)
        assert len(found) <= most
        assert found == sorted(set(found))
        assert count > most or found == list(range(count))


def test_short_series_spikes_and_what_is_not_finite_are_kept() -> None:
    assert kept([3.0, NAN, 1.0], 5) == [0, 1, 2]
    values = [0.0] * 1_000_000
    values[123_456], values[654_321] = 1.0, NAN
    found = kept(values, 1000)
    assert {0, 123_456, 654_321, 999_999} <= set(found)
    assert len(found) <= 1000
    values = [0.0] * 100
    values[40], values[50], values[60] = INF, -INF, NAN
    assert {40, 50, 60} <= set(kept(values, 5))
    assert kept([NAN] * 100, 5) == [0, 99]
    assert kept([NAN] * 50 + [INF] * 51, 5) == [0, 50, 100]
    with pytest.raises(ValueError, match="at least 5; got 4"):
        kept([], 4)


NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def at(minutes: float) -> str:
    return (NOON + timedelta(minutes=minutes)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def sample(minutes: float, value: float = 50.0) -> MachineSample:
    return MachineSample(at(minutes), "host", "cpu_percent", value)


def test_samples_are_kept_for_an_hour_whatever_the_clock_does(store: Store, reader: Reader) -> None:
    assert (reader.machine.samples(), reader.machine.newest()) == ([], "")
    for minutes in (0, 30, 59):
        store.machine.add([sample(minutes)])
    assert [found.at for found in reader.machine.samples()] == [at(0), at(30), at(59)]
    store.machine.add([sample(62, 75.0), MachineSample(at(62), "gpu0", "memory_mb", 12.0)])
    assert [(found.at, found.source, found.value) for found in reader.machine.samples()] == [
        *((at(30), "host", 50.0), (at(59), "host", 50.0)),
        *((at(62), "gpu0", 12.0), (at(62), "host", 75.0)),
    ]
    assert reader.machine.newest() == at(62)
    store.machine.add([sample(600)])
    store.machine.add([sample(0)])
    assert [found.at for found in reader.machine.samples()] == [at(0)]
    store.machine.add([sample(0, 1.0)])
    store.machine.add([sample(0, 2.0)])
    store.machine.add([])
    assert [found.value for found in reader.machine.samples()] == [2.0]
