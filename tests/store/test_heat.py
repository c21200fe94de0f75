"""Heat counts every point of a metric, in cells of time by value that stay where they are while a run goes on."""

import math
import random
from collections import Counter
from collections.abc import Callable

import pytest

from engine.recorder import Point
from engine.store import Heat, RankBatch, Reader, Store
from engine.store.heat import COLUMNS, ROWS, count_heat

Lay = Callable[..., list[Point]]


@pytest.fixture
def lay(store: Store) -> Lay:
    """Write points of perf/staleness, whose values a function of the time gives, by three ranks; return them."""

    def write(run_id: int, values: Callable[[float], float], *, count: int = 2_000, every_s: float = 0.05, start_s: float = 0.0) -> list[Point]:
        ranks = [[Point("perf/staleness", step, values(t := start_s + step * every_s), t) for step in range(count)] for _ in range(3)]
        store.write(run_id, [RankBatch(rank, points) for rank, points in enumerate(ranks)])
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
def test_each_point_is_counted_in_its_own_cell(reader: Reader, running: Callable[..., int], lay: Lay, most: int) -> None:
    draw = random.Random(most)
    run_id = running()
    points = lay(run_id, lambda t: draw.randrange(most + 1))
    heat = reader.heat(run_id, "perf/staleness")
    assert heat is not None
    assert heat.counts == counted(heat, points)
    assert sum(heat.counts.values()) == 6_000
    assert {column for column, _ in heat.counts} <= set(range(COLUMNS))
    assert span(heat) <= ROWS
    assert heat.row == (1 if most < 32 else 2 if most < 64 else 16)


def test_the_grid_is_bounded_whatever_the_numbers_are(reader: Reader, running: Callable[..., int], lay: Lay) -> None:
    run_id = running()
    points = lay(run_id, lambda t: (t - 50.0) ** 3 + 0.5, every_s=37.7, count=700)
    heat = count_heat(reader, run_id, "perf/staleness", columns=10, rows=7)
    assert heat is not None
    assert heat.counts == counted(heat, points)
    assert all(0 <= column < 10 for column, _ in heat.counts)
    assert span(heat) <= 7


def test_other_metrics_other_runs_and_what_is_no_number_count_nowhere(reader: Reader, store: Store, running: Callable[..., int], lay: Lay) -> None:
    run_id, other = running(), running()
    lay(other, lambda t: 1.0)
    store.write(run_id, [RankBatch(0, [Point("perf/staleness", 1, math.nan, 0.5), Point("perf/staleness", 2, 4.0, 1.0), Point("train/loss", 2, 9.0, 1.0)])])
    heat = reader.heat(run_id, "perf/staleness")
    assert heat is not None
    assert list(heat.counts.values()) == [1]
    assert reader.heat(run_id, "test/loss") is None
    assert reader.heat(99, "perf/staleness") is None


def test_cells_stay_or_join_while_a_run_goes_on(reader: Reader, running: Callable[..., int], lay: Lay) -> None:
    run_id = running()
    lay(run_id, lambda t: t % 7, count=500)
    before = reader.heat(run_id, "perf/staleness")
    lay(run_id, lambda t: t % 50, count=500, start_s=25.0)
    after = reader.heat(run_id, "perf/staleness")
    assert before is not None
    assert after is not None
    joined, higher = after.column_s / before.column_s, after.row / before.row
    assert (joined, higher) == (2.0, 2.0)
    was: Counter[tuple[int, int]] = Counter()
    for (column, row), count in before.counts.items():
        was[column // 2, row // 2] += count
    assert all(after.counts[cell] >= count for cell, count in was.items())


def test_counting_what_is_new_gives_what_counting_all_gives(reader: Reader, running: Callable[..., int], lay: Lay) -> None:
    draw, run_id = random.Random(1), running()
    heat: Heat | None = None
    for part, most in enumerate((3, 3, 50, 9, 400, 2)):
        lay(run_id, lambda t, most=most: draw.randrange(-most, most + 1), count=300, start_s=part * 15.0)
        heat = reader.heat(run_id, "perf/staleness", heat)
        assert heat is not None
        assert sum(heat.counts.values()) == (part + 1) * 900
        assert heat == reader.heat(run_id, "perf/staleness")
        assert heat == reader.heat(run_id, "perf/staleness", heat)


def test_an_earlier_answer_that_is_of_another_run_is_not_believed(reader: Reader, running: Callable[..., int], lay: Lay) -> None:
    run_id, other = running(), running()
    lay(run_id, lambda t: 1.0, count=10)
    lay(other, lambda t: 5.0, count=400)
    stale = reader.heat(other, "perf/staleness")
    assert reader.heat(run_id, "perf/staleness", stale) == reader.heat(run_id, "perf/staleness")
