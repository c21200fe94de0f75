"""Groups that the store adds up are those of all raw points, cell by cell; what it can't add up is left to the points themselves."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from app import compare_cells, compare_points
from app.compare_cells import in_cells
from engine.analysis.aligning import MOST_CELLS, Aligned
from engine.home import Home
from engine.recorder import Point
from engine.store import RankBatch, Reader, Store
from tests.app import compare_labs
from tests.app.compare_labs import LOSS

LENGTH = 2_400


def write(store: Store, rank: int, run_id: int, time_of: Callable[[int], float], value_of: Callable[[int], float], passes: float | None = 500.0) -> None:
    points = [Point(LOSS, step, value_of(step), time_of(step), step / passes if passes else None) for step in range(LENGTH)]
    store.write(run_id, [RankBatch(rank, points)])


@pytest.fixture
def ids(home: Home, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A run of two ranks with a pause and a stretch that is not finite, one of one rank that begins later, one that recorded nothing."""
    compare_points.forget()
    monkeypatch.setattr(compare_cells, "LONG", 1_000)
    with Store.open(home) as store:
        first, second, bare = (compare_labs.add(store, trainers=2, seed=seed, steps=0) for seed in range(3))
        for rank in (0, 1):
            write(store, rank, first, lambda step: step / 4 + 30 * (step > 1_200), lambda step: math.nan if 400 <= step < 420 else math.sin(step / 20))
        write(store, 0, second, lambda step: 3 + step / 5, lambda step: math.cos(step / 15) + step / 1e4)
    return [first, second, bare]


def both(home: Home, ids: list[int], axis: str, *, log: bool = False) -> tuple[Aligned | None, Aligned]:
    """Return a group as the store adds it up, and as its raw points give it."""
    with Reader.open(home) as reader:
        runs = reader.some(ids)
        who = compare_points.recorded(reader, runs, LOSS)
        added = in_cells(reader, runs, who, compare_points.PLAIN[axis], log=log)
        long, compare_cells.LONG = compare_cells.LONG, 10**9
        try:
            return added, compare_points.group(reader, runs, LOSS, axis, log=log)
        finally:
            compare_cells.LONG = long
            compare_points.forget()


@pytest.mark.parametrize("axis", ["step", "time", "passes"])
def test_cells_added_up_by_the_store_are_those_of_the_points(home: Home, ids: list[int], axis: str) -> None:
    added, plain = both(home, ids, axis)
    assert added is not None
    assert added.x == pytest.approx(plain.x, rel=1e-12)
    assert added.values == pytest.approx(plain.values, rel=1e-9, nan_ok=True)
    assert (added.exact, added.cell) == (plain.exact, pytest.approx(plain.cell))
    assert np.isnan(added.values[2]).all() and np.isnan(added.values[0]).any()


@pytest.mark.parametrize("which", [slice(0, 3), slice(1, 2)], ids=["from 0", "from above 0"])
def test_a_logarithmic_axis_has_the_same_cells(home: Home, ids: list[int], which: slice) -> None:
    added, plain = both(home, ids[which], "time", log=True)
    assert added is not None and added.x == pytest.approx(plain.x, rel=1e-12)
    assert added.values == pytest.approx(plain.values, rel=1e-9, nan_ok=True)


def test_what_goes_back_or_lies_at_few_positions_or_nowhere_is_left_to_the_points(home: Home, ids: list[int]) -> None:
    with Store.open(home) as store:
        back, few, nowhere = (compare_labs.add(store, trainers=2, seed=seed, steps=0) for seed in range(3, 6))
        write(store, 0, back, lambda step: abs(step - 1_200) / 20, float)
        write(store, 0, few, lambda step: float(step // 200), float)
        write(store, 0, nowhere, float, float, passes=None)
    assert both(home, [back], "time")[0] is None and both(home, [back], "step")[0] is not None
    added, plain = both(home, [few], "time")
    assert added is None and plain.exact and plain.x.size == 12 < MOST_CELLS
    assert both(home, [nowhere], "passes")[0] is None
    with Store.open(home) as store:
        short = compare_labs.add(store, trainers=2, seed=6, steps=200)
    assert both(home, [ids[1], short], "step")[0] is None


def test_points_that_were_read_lately_are_not_asked_for_again(home: Home, ids: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    with Reader.open(home) as reader:
        runs = reader.some(ids[:2])
        compare_points.group(reader, runs, LOSS, "step", within=(100.0, 200.0))  # a zoom reads the points
        monkeypatch.setattr(Reader, "cells", lambda *_: pytest.fail("the store was asked to add up what is here"))
        assert compare_points.group(reader, runs, LOSS, "step").values.shape == (2, MOST_CELLS)
