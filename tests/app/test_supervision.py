import os
import signal
import socket
import threading
from dataclasses import replace

import pytest
from filelock import FileLock

from app.sockets import send_at_once
from app.supervision import look, start
from engine.errors import StoreError
from engine.home import Home
from engine.runtime.processes import is_alive, me
from engine.runtime.running import is_running, runner_process
from engine.store import Store
from tests.browser.conftest import wait_until


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a dead runner's lock all the time that a busy machine may take to let go of it."""
    monkeypatch.setattr("engine.runtime.running.SETTLE_S", 60.0)


def test_a_killed_runner_is_started_again_and_a_stopped_one_is_not(home: Home) -> None:
    assert start(home)
    wait_until(lambda: runner_process(home) is not None, 120, "the runner is alive")
    assert not start(home)
    assert not look(home)
    first = runner_process(home)
    assert first is not None
    os.kill(first.pid, signal.SIGKILL)
    wait_until(lambda: not is_alive(first), 120, "the runner is dead")
    assert look(home)
    wait_until(lambda: runner_process(home) not in (None, first), 120, "the next runner is alive")
    with Store.open(home) as store:
        store.ask_runner_to_stop()
    wait_until(lambda: runner_process(home) is None and not is_running(home), 120, "the runner has stopped")
    assert not look(home)


def test_a_dead_runner_whose_lock_lingers_is_started_again_at_once(home: Home) -> None:
    """What a kill leaves for a moment: a thread of the dead, or a child it was about to start, still holds the lock."""
    with Store.open(home) as store:
        store.register_runner(replace(me(), started_ticks=1), cores=1, gpus=0)
    lock = FileLock(home.runner_lock, thread_local=False)
    lock.acquire()
    release = threading.Timer(0.5, lock.release)
    release.start()
    assert look(home)
    release.join()
    wait_until(lambda: runner_process(home) is not None, 120, "the runner is alive")
    with Store.open(home) as store:
        store.ask_runner_to_stop()
    wait_until(lambda: not is_running(home), 120, "the runner has stopped")


def test_a_store_of_an_older_version_is_brought_up_to_date(home: Home) -> None:
    with Store.open(home) as store:
        store.register_runner(me(), cores=1, gpus=0)
    with Store.open(home) as store, store.change() as connection:
        connection.execute("DROP INDEX sweeps_fingerprint")
        connection.execute("ALTER TABLE sweeps DROP COLUMN fingerprint")
        connection.execute("DELETE FROM _sqlite_migrations WHERE name = 'sweeps_from_elsewhere'")
    with pytest.raises(StoreError, match="written by an older Parallab"):
        runner_process(home)
    assert not start(home), "the runner that is alive is left alone"
    assert runner_process(home) == me()


def test_connections_to_a_listening_socket_send_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert send_at_once() >= 1
        with socket.create_connection(server.getsockname()), server.accept()[0] as answered:
            assert answered.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
