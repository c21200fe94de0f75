"""Channels of a lab, and receivers that are waited for however busy the machine is."""

from collections.abc import Callable

import pytest

from engine.home import Home
from engine.notices import delivery


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANSWER_S", "WHOLE_S"):
        monkeypatch.setattr(delivery, name, 60.0)


@pytest.fixture
def define(home: Home) -> Callable[[str], None]:
    """Write the file of the lab's channels."""

    def write(text: str) -> None:
        home.create()
        home.notices.write_text(text)
        home.notices.chmod(0o600)

    return write
