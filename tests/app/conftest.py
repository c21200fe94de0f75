"""What the console's tests share: a home whose store holds a run in every status."""

import pytest

from engine.home import Home
from engine.store.records import Status
from tests.app import labs


@pytest.fixture
def lab(home: Home) -> dict[Status, int]:
    """Fill the home with one run in each status; return their ids."""
    return labs.fill(home)
