"""The store of the test's home, for what a runner and a worker do with it."""

from collections.abc import Iterator

import pytest

from engine.home import Home
from engine.store import Store


@pytest.fixture
def store(home: Home) -> Iterator[Store]:
    with Store.open(home) as opened:
        yield opened
