"""Down-sampling keeps a curve's shape, says the same twice, and never brings back what it left out."""

import math
import random

import pytest

from engine.store.downsample import kept

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


def test_a_short_series_stays_whole() -> None:
    assert kept([3.0, NAN, 1.0], 5) == [0, 1, 2]


def test_one_spike_in_a_million_is_kept() -> None:
    values = [0.0] * 1_000_000
    values[123_456], values[654_321] = 1.0, NAN
    found = kept(values, 1000)
    assert {0, 123_456, 654_321, 999_999} <= set(found)
    assert len(found) <= 1000


def test_infinities_are_extremes_and_nan_is_none() -> None:
    values = [0.0] * 100
    values[40], values[50], values[60] = INF, -INF, NAN
    assert {40, 50, 60} <= set(kept(values, 5))
    assert kept([NAN] * 100, 5) == [0, 99]
    assert kept([NAN] * 50 + [INF] * 51, 5) == [0, 50, 100]


def test_it_refuses_fewer_points_than_a_bucket_has_corners() -> None:
    with pytest.raises(ValueError, match="at least 5, got 4"):
        kept([], 4)
