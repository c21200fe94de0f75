"""Receivers that answer are waited for, however busy the machine is; tests of the bounds themselves set their own."""

from collections.abc import Iterator

import pytest

from engine.home import Home
from engine.notices import mail, webhook
from engine.store import Store


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CONNECT_S", "ANSWER_S", "WHOLE_S"):
        monkeypatch.setattr(webhook, name, 60.0)
    monkeypatch.setattr(mail, "STEP_S", 60.0)


@pytest.fixture
def store(home: Home) -> Iterator[Store]:
    with Store.open(home) as opened:
        yield opened
