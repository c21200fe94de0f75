"""Bands hold every value of every rank: means, spreads and the running mean are those of the plain list."""

import math
import random
from collections.abc import Callable

import numpy as np
import pytest

from engine.recorder import Point
from engine.store import Band, RankBatch, Reader, Store
from engine.store.bands import BINS, RUNNING

NAME = "charts/episodic_return"


def record(store: Store, run_id: int, values: list[float], first: int = 0) -> None:
    """Write one point a value, by three ranks in turn."""
    for place, value in enumerate(values, start=first):
        store.write(run_id, [RankBatch(place % 3, [Point(NAME, place, value, place / 10)])])


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
    band = reader.band(run_id, NAME)
    assert band is not None
    agrees(band, values)
    assert len(band.bins) <= BINS
    assert all(each.count == band.width for each in band.bins[:-1])


def test_what_is_new_is_added_to_an_earlier_answer(store: Store, reader: Reader, running: Callable[..., int]) -> None:
    run_id, values = running(), numbers(1, 500)
    band, at = None, 0
    for upto in (3, BINS, BINS + 1, 300, 500):
        record(store, run_id, values[at:upto], first=at)
        band, at = reader.band(run_id, NAME, band), upto
        assert band is not None
        agrees(band, values[:upto])
        assert band == reader.band(run_id, NAME)


def test_an_earlier_answer_that_does_not_fit_is_not_used(store: Store, reader: Reader, running: Callable[..., int]) -> None:
    one, other = running(), running()
    record(store, one, numbers(2, 40))
    record(store, other, numbers(3, 10))
    assert reader.band(other, NAME, reader.band(one, NAME)) == reader.band(other, NAME)


def test_what_is_not_finite_counts_nowhere(store: Store, reader: Reader, running: Callable[..., int]) -> None:
    run_id = running()
    assert reader.band(run_id, NAME) is None
    record(store, run_id, [1.0, math.nan, 3.0, math.inf])
    band = reader.band(run_id, NAME)
    assert band is not None and band.total == 2
    assert [each.mean for each in band.bins] == [1.0, 3.0]
