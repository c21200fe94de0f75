"""Curves: what is new since an id, in order, through the points' own key, and thinned where asked."""

from collections.abc import Callable

import pytest

from engine.recorder import Point
from engine.store import RankBatch, Reader, Store

Points = list[tuple[int, float]]


@pytest.fixture
def batch(store: Store) -> Callable[..., None]:
    """Write `count` points of each metric by each of two ranks, and one metric of the whole run."""

    def write(run_id: int, start: int, count: int) -> None:
        def made(name: str, rank: int) -> list[Point]:
            return [Point(name, step, step * 10.0 + rank, step / 10) for step in range(start, start + count)]

        batches = [RankBatch(rank, [*made("train/loss", rank), *made("test/loss", rank)]) for rank in (0, 1)]
        store.write(run_id, batches, run_points=[Point("perf/samples_per_second", start, 5.0, 0.0)])

    return write


METRICS = ["train/loss", "test/loss", "perf/samples_per_second"]


def test_polling_by_the_highest_id_seen_gives_every_point_once_and_in_order(reader: Reader, running: Callable[..., int], batch: Callable[..., None]) -> None:
    run_id, other = running(), running()
    seen: dict[tuple[str, int | None], list[int]] = {}
    last = 0
    for round_ in range(6):
        batch(other, round_, 3)
        batch(run_id, round_ * 4, 4)
        new = reader.series(run_id, METRICS, after_id=last)
        assert len({id for series in new for id in series.ids}) == 4 * 4 + 1
        last = max(id for series in new for id in series.ids)
        for series in new:
            seen.setdefault((series.metric, series.rank), []).extend(series.steps)
            assert series.total == len(seen[series.metric, series.rank])
    assert seen.pop(("perf/samples_per_second", None)) == [0, 4, 8, 12, 16, 20]
    assert seen == {(name, rank): list(range(24)) for name in ("train/loss", "test/loss") for rank in (0, 1)}
    assert [series.ids for series in reader.series(run_id, METRICS, after_id=last)] == [[]] * 5


def test_only_the_metrics_asked_for_come_and_unknown_ones_are_absent(reader: Reader, running: Callable[..., int], batch: Callable[..., None]) -> None:
    run_id = running()
    batch(run_id, 0, 1)
    assert {series.metric for series in reader.series(run_id, ["test/loss", "no/such"])} == {"test/loss"}
    assert reader.series(run_id, []) == []


def test_a_thinned_series_is_part_of_the_whole_one_and_says_how_many_there_are(reader: Reader, running: Callable[..., int], batch: Callable[..., None]) -> None:
    run_id = running()
    batch(run_id, 0, 3000)
    whole, thin = (reader.series(run_id, ["train/loss"], max_points=most)[1] for most in (None, 100))
    assert (whole.total, thin.total, len(whole.ids)) == (3000, 3000, 3000)
    assert 40 < len(thin.ids) <= 100
    assert (thin.ids[0], thin.ids[-1]) == (whole.ids[0], whole.ids[-1])
    rows = set(zip(whole.ids, whole.steps, whole.times_s, whole.passes, whole.values, strict=True))
    assert set(zip(thin.ids, thin.steps, thin.times_s, thin.passes, thin.values, strict=True)) <= rows
    assert thin == reader.series(run_id, ["train/loss"], max_points=100)[1]
    later = reader.series(run_id, ["train/loss"], after_id=whole.ids[1500], max_points=100)[1]
    assert (later.ids[0], len(later.ids) <= 100) == (whole.ids[1501], True)


def test_new_points_are_found_through_the_key_without_a_sort(reader: Reader) -> None:
    plan = " ".join(row["detail"] for row in reader.rows("EXPLAIN QUERY PLAN SELECT * FROM points WHERE metric_id = 1 AND id > 5 ORDER BY id"))
    assert plan == "SEARCH points USING PRIMARY KEY (metric_id=? AND id>?)"
    plan = " ".join(row["detail"] for row in reader.rows("EXPLAIN QUERY PLAN SELECT * FROM metrics WHERE run_id = 1 AND name IN ('a', 'b')"))
    assert plan == "SEARCH metrics USING INDEX metrics_run (run_id=? AND name=?)"
    plan = " ".join(row["detail"] for row in reader.rows("EXPLAIN QUERY PLAN SELECT max(version) FROM runs"))
    assert "runs_version" in plan


def test_reading_a_curve_and_its_end_see_one_moment(store: Store, reader: Reader, running: Callable[..., int], batch: Callable[..., None]) -> None:
    run_id = running()
    batch(run_id, 0, 2)
    with reader.snapshot():
        before = reader.token()
        batch(run_id, 2, 2)
        assert reader.token() == before
        assert reader.summaries(run_id)[-1].count == 2
    assert reader.token() > before
    assert reader.summaries(run_id)[-1].count == 4


def test_a_run_counts_passes_once_one_of_its_metrics_does(store: Store, reader: Reader, running: Callable[..., int], batch: Callable[..., None]) -> None:
    run_id, other = running(), running()
    batch(run_id, 0, 3)
    store.write(other, [RankBatch(0, [Point("train/loss", 1, 0.5, 0.1, passes=0.25)])])
    assert not reader.counts_passes(run_id)
    assert reader.counts_passes(other)
