"""What the console's tests share: a home whose store holds a run in every status, and a clock that stands still."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from streamlit.elements.lib import policies

from engine.home import Home
from engine.store import Reader
from engine.store.records import Status
from tests.app import quick_pages
from tests.cheap import cheap_passwords
from tests.labs import basic

__all__ = ["cheap_passwords", "quick_pages"]


@pytest.fixture
def lab(home: Home) -> dict[Status, int]:
    """Fill the home with one run in each status; return their ids."""
    return basic.filled(home)


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop the clock that ages are told by."""
    moment = datetime.now(UTC)
    monkeypatch.setattr("app.core.formatting.now", lambda: moment)


@pytest.fixture
def reader(home: Home) -> Iterator[Reader]:
    """Give a reader of the home, whose store may come to be later."""
    with Reader.open(home) as opened:
        yield opened


@pytest.fixture(autouse=True)
def one_default(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail if a widget has a default value although the session state sets its value: Streamlit logs a warning."""
    twice: list[str] = []
    monkeypatch.setattr(policies, "_shown_default_value_warning", False)
    monkeypatch.setattr(policies._LOGGER, "warning", lambda text, key, **options: twice.append(key))
    yield
    assert not twice, twice
