"""The health check says how the runner is, also while the console has only just started."""

import pytest

from app.web import health
from engine.home import Home
from tests.app.browsing import Client


def test_a_runner_that_has_had_no_time_to_start_is_starting_and_then_absent(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "_SINCE", health.time.monotonic())
    assert Client().get("/healthz").json()["runner"] == "starting"
    monkeypatch.setenv("PARALLAB_RUNNER", "separate")
    assert Client().get("/healthz").json()["runner"] == "absent", "this console starts none"
    monkeypatch.delenv("PARALLAB_RUNNER")
    monkeypatch.setattr(health, "_SINCE", health.time.monotonic() - health.STARTING_S)
    assert Client().get("/healthz").json()["runner"] == "absent"
