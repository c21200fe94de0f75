"""What the console's tests share: a home whose store holds a run in every status, and a clock that stands still."""

from datetime import UTC, datetime
from functools import cache

import pytest
from streamlit.components.v2 import manifest_scanner

from engine.home import Home
from engine.store.records import Status
from tests.app import labs

manifest_scanner.scan_component_manifests = cache(manifest_scanner.scan_component_manifests)  # type: ignore[assignment]
"""AppTest looks for components in all installed packages at each run of a page; they stay what they are, and that was nine tenths of a run's time."""


@pytest.fixture
def lab(home: Home) -> dict[Status, int]:
    """Fill the home with one run in each status; return their ids."""
    return labs.fill(home)


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop the clock that ages are told by."""
    moment = datetime.now(UTC)
    monkeypatch.setattr("app.durations.now", lambda: moment)
