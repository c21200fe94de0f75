"""What a store takes and how fast a large one answers, in short versions of the benchmarks."""

import pytest

from bench import store_size, store_writers
from engine.home import Home
from engine.store import Store


@pytest.mark.long
def test_32_writers_and_4_readers_share_a_store_and_no_point_is_lost(home: Home) -> None:
    found = store_writers.measure(home, writers=32, readers=4, seconds=10, points=500)
    assert (found["lost"], found["busy_errors"], found["summaries_agree"]) == (0, 0, True)
    assert found["points_per_second"] >= 20_000


def test_a_few_writers_and_readers_lose_no_point(home: Home, store: Store) -> None:  # a store that somebody has open, as it is in a lab
    found = store_writers.measure(home, writers=3, readers=1, seconds=2, points=200)
    assert (found["lost"], found["busy_errors"], found["summaries_agree"]) == (0, 0, True)
    assert found["points"] >= 3 * 200, "each has written at least once"


@pytest.mark.long
def test_a_store_of_2000_runs_and_3_million_points_answers_at_once(home: Home) -> None:
    longest = store_size.fill(home, 2_000, 3_000_000)
    found = store_size.measure(home, longest)
    assert found["chart_of_the_longest"]["first"] < 300
    assert found["chart_of_the_longest"]["median"] < 50
    assert found["zoom_into_its_middle"]["median"] < 50
    assert all(found[name]["median"] < 300 for name in ("run_table_500", "filter_by_status_owner_experiment", "search_in_all_texts"))
    assert all(found[name]["median"] < 5 for name in ("idle_poll_of_all", "idle_poll_of_a_run"))
