"""Updates by a moment: added over ranks, even between points, from none at the start, unknown without a clock."""

import numpy as np

from engine.analysis.updates import CLOCKS, growing, updates_at
from engine.registry import EXPERIMENTS


def test_every_experiment_has_a_clock() -> None:
    assert set(CLOCKS) == set(EXPERIMENTS)


def test_clocks_add_up_and_stand_still_past_their_end() -> None:
    one = (np.array([1.0, 2.0]), np.array([10.0, 20.0]))
    other = (np.array([4.0]), np.array([4.0]))
    assert updates_at(np.array([0.0, 0.5, 1.5, 4.0, 9.0]), [one, other]).tolist() == [0.0, 5.5, 16.5, 24.0, 24.0]


def test_without_a_clock_updates_are_not_known() -> None:
    assert np.isinf(updates_at(np.array([1.0]), [])).all()
    assert np.isinf(updates_at(np.array([1.0]), [(np.empty(0), np.empty(0))])).all()


def test_a_count_that_began_anew_goes_on_from_what_it_had_reached() -> None:
    assert growing(np.array([1.0, 4.0, 0.5, 2.0, 1.0])).tolist() == [1.0, 4.0, 4.5, 6.0, 7.0]
    assert growing(np.array([3.0])).tolist() == [3.0]
    assert growing(np.empty(0)).size == 0
