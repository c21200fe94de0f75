"""How values become JSON, tables and words."""

import json
import math
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from engine.cli.answers import duration, moment, number, plain, table
from engine.filter.tree import read_moment
from engine.queue.forecast import clock
from engine.store import Demand


def test_every_value_can_be_written_as_strict_json() -> None:
    value = {
        "run": Demand(2, 0, 2, 1),
        3: (1, 2.5, None, True),
        "path": Path("a"),
        "odd": [math.nan, math.inf, -math.inf],
    }
    told = json.loads(json.dumps(plain(value), allow_nan=False))
    assert told == {
        "run": {"cores": 2, "gpus": 0, "ranks": 2, "threads_per_rank": 1, "listens": False},
        "3": [1, 2.5, None, True],
        "path": "a",
        "odd": ["NaN", "Infinity", "-Infinity"],
    }


def test_numbers_stand_to_the_right_and_words_to_the_left() -> None:
    assert table(("ID", "NAME"), [(1, "a"), (100, None)]) == " ID  NAME\n  1  a\n100"


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, ""), (0.25, "0.2 s"), (59.9, "59.9 s"), (65, "1 min 05 s"), (273_600, "76 h 00 min")]
)
def test_durations_are_said_as_people_say_them(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"), [(None, ""), (97.5, "97.5"), (0.00012345, "0.0001234"), (123456.7, "123,457")]
)
def test_numbers_keep_the_digits_that_one_compares_by(value: float | None, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kolkata", "UTC"])
def test_times_are_in_utc_and_say_so_wherever_the_reader_is(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        at = "2026-11-01T22:30:05.250Z"
        assert moment(at) == "2026-11-01 22:30:05 UTC"
        found = read_moment(moment(at), datetime.now(UTC))
        assert found and found.first == "2026-11-01T22:30:05.000Z", "a filter means the time that is shown"
        before, told, after = f"{datetime.now(UTC):%H:%M} UTC", clock(0.0), f"{datetime.now(UTC):%H:%M} UTC"
        assert told in (before, after) and clock(3 * 86_400.0).endswith(" UTC")
    finally:
        monkeypatch.undo()
        time.tzset()
