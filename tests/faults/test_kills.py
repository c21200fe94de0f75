"""A few kills with -9 at random moments; `python -m bench.kills` does two hundred."""

import pytest

from bench.kills import HEARTBEATS_S, measure


@pytest.mark.timeout(300)
@pytest.mark.parametrize("allowed_s", [60.0, pytest.param(HEARTBEATS_S, marks=pytest.mark.long)])
def test_kills_at_random_moments_lose_nothing_hang_nothing_and_leave_nothing(allowed_s: float) -> None:
    seen = measure(kills=6, seed=4, victims=("runner", "worker", "rank"))
    assert seen["kills"] == 6
    assert seen["points_committed"] > 0
    assert seen["points_lost"] == []
    assert seen["called_running_s"]["most"] <= allowed_s
    assert (seen["processes_left"], seen["segments_left"]) == ([], [])
