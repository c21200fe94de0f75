"""What like runs took, and how long a run that is on still takes."""

import pytest

from engine.home import Home
from engine.queue.estimates import Estimate, by_kind, kind_of, left
from engine.store.queue import PastRun

LIKE = Estimate(40.0, 30.0, 50.0, 3)


def test_like_runs_share_all_settings_that_cost_time(home: Home) -> None:
    config = {"trainers": 2, "epochs": 3, "seed": 0, "learning_rate": 0.1}
    past = [
        PastRun(config | {"seed": 7, "learning_rate": 0.5}, 2, 0, 30.0),
        PastRun(config, 2, 0, 50.0),
        PastRun(config | {"epochs": 9}, 2, 0, 90.0),
        PastRun(config, 1, 0, 80.0),
        PastRun(config, 2, 1, 5.0),
    ]
    assert by_kind(past)[kind_of(dict(reversed(config.items())), 2, 0)] == [30.0, 50.0]


@pytest.mark.parametrize(
    ("held_s", "share", "on_s", "takes", "soonest", "expected"),
    [
        (10, 0.0, 0, None, None, None),  # nothing tells
        (12, 0.25, 10, None, 15.0, 30.0),  # its own pace
        (12, 0.25, 10, LIKE, 15.0, 30.0),  # which counts more than its like
        (12, 0.01, 10, LIKE, 9.0, 28.0),  # but not at the very beginning
        (12, 0.0, 0, LIKE, 9.0, 28.0),
        (45, 0.0, 0, LIKE, 0.0, 5.0),  # past the median: the longest
        (60, 0.0, 0, LIKE, 0.0, 6.0),  # past that too
        (12, 1.0, 10, LIKE, 0.0, 0.0),
    ],
)
def test_the_rest_of_a_run(held_s: float, share: float, on_s: float, takes: Estimate | None, soonest: float | None, expected: float | None) -> None:
    found = left(held_s, share, on_s, takes)
    assert found == (soonest if soonest is None else pytest.approx(soonest), expected if expected is None else pytest.approx(expected))
