"""Kills with -9 at random moments; `python -m bench.kills` does two hundred. What a kill at a known moment does is in
test_faults.py.
"""

import pytest

from bench.kills import HEARTBEATS_S, measure

pytestmark = pytest.mark.long


def test_kills_at_random_moments_lose_nothing_hang_nothing_and_leave_nothing() -> None:
    seen = measure(kills=6, seed=4, victims=("runner", "worker", "rank"))
    assert seen["kills"] == 6
    assert seen["points_committed"] > 0
    assert seen["points_lost"] == []
    assert seen["called_running_s"]["most"] <= HEARTBEATS_S
    assert (seen["processes_left"], seen["segments_left"]) == ([], [])
