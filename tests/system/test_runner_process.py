"""Whether a runner serves a home while its lock and the store don't agree; a thread holds the lock here, and no runner
is started really.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from filelock import FileLock

from engine.cli import main
from engine.errors import RunnerError
from engine.home import Home
from engine.runner.runner import taken
from engine.store import Store
from engine.store.records import ProcessIdentity
from engine.system.processes import me
from engine.system.runner_process import ensure_running, is_running

KILLED = replace(me(), started_ticks=1)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Have no runner started, and return the commands that would start one."""
    commands: list[list[str]] = []

    def note(command: list[str], **others: object) -> object:
        commands.append(command)
        return SimpleNamespace(poll=lambda: 0)

    monkeypatch.setattr("engine.system.runner_process.subprocess.Popen", note)
    return commands


@contextmanager
def held(home: Home, then: Callable[[], object] | None = None) -> Iterator[None]:
    """Hold the runner's lock in the block; `then` happens after a tenth of a second, without one the lock
    is let go of.
    """
    lock = FileLock(home.runner_lock, thread_local=False)
    lock.acquire()
    later = threading.Timer(0.1, then or lock.release)
    later.start()
    try:
        yield
    finally:
        later.join()
        lock.release()


def register(home: Home, runner: ProcessIdentity | None) -> None:
    if runner:
        with Store.open(home) as store:
            store.runner.register(runner, cores=1, gpus=0)


@pytest.fixture(autouse=True)
def patient(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.system.runner_process.SETTLE_S", 60.0)
    with Store.open(home):
        pass


def test_a_runner_that_serves_is_left_alone(home: Home, started: list[list[str]]) -> None:
    register(home, me())
    with held(home, then=lambda: None):
        assert not ensure_running(home)
    assert not started


@pytest.mark.parametrize("last", [None, KILLED], ids=["signed off and still ends", "killed and its lock lingers"])
def test_one_that_is_gone_is_followed_by_another(
    home: Home, started: list[list[str]], last: ProcessIdentity | None
) -> None:
    register(home, last)
    with held(home):
        assert ensure_running(home)
    assert len(started) == 1


@pytest.mark.parametrize("last", [None, KILLED], ids=["after none", "after a killed one"])
def test_one_that_starts_gets_the_time_to_be_named_and_no_rival(
    home: Home, started: list[list[str]], last: ProcessIdentity | None
) -> None:
    register(home, last)
    with held(home, then=lambda: register(home, me())):
        assert not ensure_running(home)
    assert not started


def test_a_lock_that_nobody_explains_is_not_waited_for_for_ever(
    home: Home, started: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.system.runner_process.SETTLE_S", 0.2)
    with held(home, then=lambda: None):
        assert not ensure_running(home)
        assert is_running(home)
    assert not started


def test_a_new_runner_outlasts_who_merely_looks_and_got_no_turn(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.runner.runner.TAKE_S", 0.02)
    with held(home), taken(home):
        assert is_running(home)


def test_a_new_runner_gives_way_to_one_that_was_just_starting(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.runner.runner.TAKE_S", 0.02)
    with (
        held(home, then=lambda: register(home, me())),
        pytest.raises(RunnerError, match=f"already running .* \\(pid {me().pid}\\)"),
        taken(home),
    ):
        pass


def test_the_second_of_two_that_start_a_runner_logs_no_error(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.runner.runner.TAKE_S", 0.02)
    monkeypatch.setattr("engine.runner.runner.log_to_stdout", lambda: None)
    register(home, me())
    with held(home, then=lambda: None):
        asked = CliRunner().invoke(main, ["serve", "--unless-running"], prog_name="python -m engine")
        by_hand = CliRunner().invoke(main, ["serve"], prog_name="python -m engine")
    assert (asked.exit_code, asked.output) == (
        0,
        "Another program has just started a runner; this one is not needed.\n",
    )
    assert by_hand.exit_code == 4 and "already running" in by_hand.output
