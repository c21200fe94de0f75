"""Bands hold every value of every rank: means, spreads and the running mean are those of the plain list."""

import math
import random
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from engine.recorder import Point, Span
from engine.store import Band, Heat, RankBatch, Reader, Store
from engine.store.curves.heatmap import BINS, COLUMNS, ROWS, RUNNING, count_heat
from engine.store.runs.details import _BATCHES, _SPANS

NAME = "charts/episodic_return"


def record(store: Store, run_id: int, values: list[float], first: int = 0) -> None:
    """Write one point a value, by three ranks in turn."""
    for place, value in enumerate(values, start=first):
        store.worker.write(run_id, [RankBatch(place % 3, [Point(NAME, place, value, place / 10)])])


def numbers(seed: int, count: int) -> list[float]:
    draw = random.Random(seed)
    return [draw.gauss(place / 10, 5) for place in range(count)]


def agrees(band: Band, values: list[float]) -> None:
    """Compare a band with the plain list of all values."""
    first = 0
    for each in band.bins:
        part = values[first : first + each.count]
        first += each.count
        assert math.isclose(each.mean, float(np.mean(part)), rel_tol=1e-9)
        assert math.isclose(each.deviation, float(np.std(part)), rel_tol=1e-6, abs_tol=1e-9)
        assert (each.low, each.high) == (min(part), max(part))
        assert math.isclose(each.running, float(np.mean(values[max(0, first - RUNNING) : first])), rel_tol=1e-9)
    assert first == len(values) == band.total


@pytest.mark.parametrize("count", [1, BINS, BINS + 1, 700])
def test_a_band_is_that_of_all_values(store: Store, reader: Reader, running: Callable[..., int], count: int) -> None:
    run_id, values = running(), numbers(count, count)
    record(store, run_id, values)
    band = reader.curves.band(run_id, NAME)
    assert band is not None
    agrees(band, values)
    assert len(band.bins) <= BINS
    assert all(each.count == band.width for each in band.bins[:-1])


def test_what_is_new_is_added_to_an_earlier_answer_that_fits(
    store: Store, reader: Reader, running: Callable[..., int]
) -> None:
    run_id, values = running(), numbers(1, 500)
    band, at = None, 0
    for upto in (3, BINS, BINS + 1, 300, 500):
        record(store, run_id, values[at:upto], first=at)
        band, at = reader.curves.band(run_id, NAME, band), upto
        assert band is not None
        agrees(band, values[:upto])
        assert band == reader.curves.band(run_id, NAME)
    one, other = running(), running()
    record(store, one, numbers(2, 40))
    record(store, other, numbers(3, 10))
    assert reader.curves.band(other, NAME, reader.curves.band(one, NAME)) == reader.curves.band(other, NAME)
    run_id = running()
    assert reader.curves.band(run_id, NAME) is None
    record(store, run_id, [1.0, math.nan, 3.0, math.inf])
    band = reader.curves.band(run_id, NAME)
    assert band is not None and band.total == 2
    assert [each.mean for each in band.bins] == [1.0, 3.0]


Lay = Callable[..., list[Point]]


@pytest.fixture
def lay(store: Store) -> Lay:
    """Write points of perf/staleness, whose values a function of the time gives, by three ranks; return them."""

    def write(
        run_id: int,
        values: Callable[[float], float],
        *,
        count: int = 2_000,
        every_s: float = 0.05,
        start_s: float = 0.0,
    ) -> list[Point]:
        ranks = [
            [Point("perf/staleness", step, values(t := start_s + step * every_s), t) for step in range(count)]
            for _ in range(3)
        ]
        store.worker.write(run_id, [RankBatch(rank, points) for rank, points in enumerate(ranks)])
        return [point for points in ranks for point in points]

    return write


def counted(heat: Heat, points: list[Point]) -> dict[tuple[int, int], int]:
    """Count the points into the heat's cells one by one."""
    finite = [point for point in points if math.isfinite(point.value)]
    return dict(Counter((math.floor(p.time_s / heat.column_s), math.floor(p.value / heat.row)) for p in finite))


def span(heat: Heat) -> int:
    """Return the rows from the lowest to the highest."""
    rows = [row for _, row in heat.counts]
    return max(rows) - min(rows) + 1


@pytest.mark.parametrize("most", [3, 31, 32, 33, 400])
def test_each_point_is_counted_in_its_own_cell(
    reader: Reader, running: Callable[..., int], lay: Lay, most: int
) -> None:
    draw = random.Random(most)
    run_id = running()
    points = lay(run_id, lambda t: draw.randrange(most + 1))
    heat = reader.curves.heat(run_id, "perf/staleness")
    assert heat is not None
    assert heat.counts == counted(heat, points)
    assert sum(heat.counts.values()) == 6_000
    assert {column for column, _ in heat.counts} <= set(range(COLUMNS))
    assert span(heat) <= ROWS
    assert heat.row == (1 if most < 32 else 2 if most < 64 else 16)


def test_the_grid_is_bounded_whatever_the_numbers_are(reader: Reader, running: Callable[..., int], lay: Lay) -> None:
    run_id = running()
    points = lay(run_id, lambda t: (t - 50.0) ** 3 + 0.5, every_s=37.7, count=700)
    heat = count_heat(reader.db, run_id, "perf/staleness", columns=10, rows=7)
    assert heat is not None
    assert heat.counts == counted(heat, points)
    assert all(0 <= column < 10 for column, _ in heat.counts)
    assert span(heat) <= 7


def test_what_is_of_another_run_or_no_number_counts_nowhere(
    reader: Reader, store: Store, running: Callable[..., int], lay: Lay
) -> None:
    run_id, other = running(), running()
    lay(other, lambda t: 1.0)
    store.worker.write(
        run_id,
        [
            RankBatch(
                0,
                [
                    Point("perf/staleness", 1, math.nan, 0.5),
                    Point("perf/staleness", 2, 4.0, 1.0),
                    Point("train/loss", 2, 9.0, 1.0),
                ],
            )
        ],
    )
    heat = reader.curves.heat(run_id, "perf/staleness")
    assert heat is not None
    assert list(heat.counts.values()) == [1]
    assert reader.curves.heat(run_id, "test/loss") is None
    assert reader.curves.heat(99, "perf/staleness") is None
    run_id, other = running(), running()
    lay(run_id, lambda t: 1.0, count=10)
    lay(other, lambda t: 5.0, count=400)
    stale = reader.curves.heat(other, "perf/staleness")
    assert reader.curves.heat(run_id, "perf/staleness", stale) == reader.curves.heat(run_id, "perf/staleness")


def test_counting_what_is_new_gives_what_counting_all_gives_in_cells_that_stay(
    reader: Reader, running: Callable[..., int], lay: Lay
) -> None:
    draw, run_id = random.Random(1), running()
    heat: Heat | None = None
    for part, most in enumerate((3, 3, 50, 9, 400, 2)):
        lay(run_id, lambda t, most=most: draw.randrange(-most, most + 1), count=300, start_s=part * 15.0)
        heat = reader.curves.heat(run_id, "perf/staleness", heat)
        assert heat is not None
        assert sum(heat.counts.values()) == (part + 1) * 900
        assert heat == reader.curves.heat(run_id, "perf/staleness")
        assert heat == reader.curves.heat(run_id, "perf/staleness", heat)
    run_id = running()
    lay(run_id, lambda t: t % 7, count=500)
    before = reader.curves.heat(run_id, "perf/staleness")
    lay(run_id, lambda t: t % 50, count=500, start_s=25.0)
    after = reader.curves.heat(run_id, "perf/staleness")
    assert before is not None
    assert after is not None
    joined, higher = after.column_s / before.column_s, after.row / before.row
    assert (joined, higher) == (2.0, 2.0)
    was: Counter[tuple[int, int]] = Counter()
    for (column, row), count in before.counts.items():
        was[column // 2, row // 2] += count
    assert all(after.counts[cell] >= count for cell, count in was.items())


def spans_of(batch: int, splits: int, stage: int, base_ns: int = 0) -> list[Span]:
    """Return a forward and a backward for each micro-batch, and the update, later ones first."""
    first, start = batch * splits, base_ns + batch * 1_000_000
    worked = [
        Span(name, stage, first + number, start + 100 * number + 50 * place, start + 100 * number + 50 * place + 40)
        for number in reversed(range(splits))
        for place, name in enumerate(("forward", "backward"))
    ]
    return [Span("update", stage, first, start + 100_000, start + 100_900), *worked]


@pytest.fixture
def sampled(store: Store, running: Callable[..., int]) -> int:
    """Return a run of two stages and 4 splits that kept batches 0, 1, 7 and 40; of the last only stage 0
    has come in.
    """
    run_id = running()
    for batch in (0, 40, 7, 1):
        store.worker.write(
            run_id, [RankBatch(stage, spans=spans_of(batch, 4, stage)) for stage in range(1 if batch == 40 else 2)]
        )
    store.worker.write(running(), [RankBatch(0, spans=spans_of(3, 4, 0))])
    return run_id


def test_recorded_batches_are_told_in_order_and_each_is_read_whole_by_an_index(
    reader: Reader, sampled: int, running: Callable[..., int]
) -> None:
    assert reader.details.recorded_batches(sampled, 4) == [0, 1, 7, 40]
    assert reader.details.recorded_batches(running(), 4) == []
    assert reader.details.recorded_batches(sampled, 1)[:6] == [0, 1, 2, 3, 4, 5]
    found = reader.details.batch_spans(sampled, 7, 4)
    expected = [span for stage in range(2) for span in spans_of(7, 4, stage)]
    assert sorted(found, key=repr) == sorted(expected, key=repr)
    assert [span.t0_ns for span in found] == sorted(span.t0_ns for span in expected)
    assert reader.details.batch_spans(sampled, 7, 4, limit=3) == found[:3]
    assert len(reader.details.batch_spans(sampled, 40, 4)) == 9
    assert reader.details.batch_spans(sampled, 2, 4) == []
    one = f"{_SPANS} AND micro_batch >= ? AND micro_batch < ? ORDER BY t0_ns LIMIT ?"
    for sql, values in ((_BATCHES, [sampled, 4]), (one, [sampled, 28, 32, 10])):
        steps = [
            row["detail"]
            for row in reader.db.rows(f"EXPLAIN QUERY PLAN {sql}", values)
            if " spans " in f"{row['detail']} "
        ]
        assert steps
        assert all(step.startswith("SEARCH spans USING") and "spans_micro_batch (run_id=?" in step for step in steps), (
            steps
        )
    assert reader.details.has_spans(sampled)
    assert not reader.details.has_spans(running())
