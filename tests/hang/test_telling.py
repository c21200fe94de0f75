"""The hang doctor's watch by itself: what it does where its findings can't be stored, and wrong limits."""

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from engine.errors import ConfigError, StoreBusy
from engine.hang.watch import VARIABLE, HangLimits, HangWatch, WatchedRank
from engine.trace.health import Verdict
from engine.trace.ring import TraceMemory, TraceWriter
from engine.trace.ring_reader import TraceReader
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.processes


@pytest.fixture
def asleep() -> Iterator[int]:
    """Return the pid of a process that does nothing."""
    with subprocess.Popen(["sleep", "3600"]) as process:
        yield process.pid
        process.kill()


def watching(
    folder: Path, pid: int, tell: Callable[[Verdict], None], begun: bool = True, start_s: float = 0.8
) -> HangWatch:
    """Return a watch over one rank that never does anything."""
    memory = TraceMemory().memory
    if begun:
        TraceWriter(memory)
    rank = WatchedRank(0, "trainer1", pid, TraceReader(memory), lambda: False)
    limits = HangLimits(quiet_s=0.1, steps=1.0, looks=2, between_s=0.01, every_s=0.01, start_s=start_s)
    return HangWatch([rank], folder, tell, limits)


def look(watch: HangWatch) -> None:
    """Look once more; the store may be busy."""
    with suppress(StoreBusy):
        watch.look_if_due()
    time.sleep(0.011)


def look_until(watch: HangWatch, holds: Callable[[], bool]) -> None:
    """Look at equal intervals until that holds; a watch that was itself stopped starts its count again."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        look(watch)


def test_a_fault_of_the_doctor_fails_no_run_and_is_logged_once(
    tmp_path: Path, asleep: int, monkeypatch: pytest.MonkeyPatch, logged: list[str]
) -> None:
    watch, looks = watching(tmp_path, asleep, lambda verdict: None), list[float]()

    def fail(at: float) -> None:
        looks.append(at)
        raise IndexError("a fault of the doctor")

    monkeypatch.setattr(watch, "_look", fail)
    for _ in range(3):
        look(watch)
    assert len(looks) == 1 and sum("IndexError: a fault of the doctor" in each for each in logged) == 1


def test_a_process_that_is_just_starting_has_not_failed_to_join(tmp_path: Path, asleep: int) -> None:
    watch = watching(tmp_path, asleep, lambda verdict: None, begun=False, start_s=3600.0)
    for _ in range(30):
        look(watch)
    assert watch.health is not None and watch.health.verdict == Verdict("STARTING")
    watch = watching(tmp_path, asleep, lambda verdict: None, begun=False)
    look_until(watch, lambda: watch.health is not None and watch.health.verdict.state == "HUNG")
    assert watch.health is not None and watch.health.verdict.cause == "not joined"


def test_a_verdict_that_the_store_did_not_take_is_told_again(tmp_path: Path, asleep: int) -> None:
    told: list[Verdict] = []

    def tell(verdict: Verdict) -> None:
        told.append(verdict)
        if len(told) < 3:
            raise StoreBusy("another program has locked it")

    watch = watching(tmp_path, asleep, tell)
    look_until(watch, lambda: len(told) == 3)
    for _ in range(20):
        look(watch)
    assert [(each.state, each.rank) for each in told] == [("HUNG", "trainer1")] * 3
    assert watch.health is not None and watch.health.verdict.state == "HUNG"


@pytest.mark.parametrize("text", ["soon", "0", "-5", "nan", "inf"])
def test_a_wrong_limit_is_an_error_that_names_it(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(ConfigError, match=rf"PARALLAB_HANG_S must be a number of seconds .*; got '{text}'"):
        HangLimits()


@pytest.mark.parametrize(("text", "seconds"), [("", 10.0), (" 2.5 ", 2.5)])
def test_the_limit_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch, text: str, seconds: float) -> None:
    monkeypatch.setenv(VARIABLE, text)
    assert HangLimits().quiet_s == seconds
