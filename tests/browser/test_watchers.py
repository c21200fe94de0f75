"""Many people on one live run, as bench/watchers.py measures them; here that each of them sees all of it."""

import math

import pytest

from bench import watchers
from engine.home import Home
from tests.browser.conftest import Console
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.browser


@pytest.mark.long  # 55 s; pushes and polls are also in tests/app/web/test_polling.py, live pages in other browser tests
def test_five_watchers_and_a_browser_see_every_point_of_a_live_run(
    console: Console, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchers, "CATCH_UP_S", PATIENCE_S)  # here nothing hangs on how soon
    found = watchers.watch(home, console.address, watchers=5, seconds=3, join_s=1, settle_s=1)
    assert found["errors"] == []
    assert math.isfinite(found["lag_s"]["max"])
    assert math.isfinite(found["lag_of_status_and_numbers_s"]["max"])
    assert math.isfinite(found["browser_draws_after_s"]["max"])
    assert found["lag_s"]["of"] >= 5 * watchers.LEAST


@pytest.mark.long
def test_a_hundred_watchers_take_under_half_a_core_of_the_server(console: Console, home: Home) -> None:
    found = watchers.watch(home, console.address, watchers=100, seconds=120)
    assert found["errors"] == []
    assert found["server_cores"] < 0.5
    assert found["lag_s"]["max"] < 2
