"""The supervised runner, listening sockets, and memory given back to the system."""

import http.server
import os
import platform
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest
from filelock import FileLock

from app.web.port_check import complaint
from app.web.supervision import HEAPS, look, send_at_once, start
from engine.errors import StoreError
from engine.home import ROOT, Home
from engine.store import Store
from engine.system.processes import is_alive, me
from engine.system.runner_process import is_running, runner_process
from tests.waiting import PATIENCE_S, wait_until


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a dead runner's lock all the time that a busy machine may take to let go of it."""
    monkeypatch.setattr("engine.system.runner_process.SETTLE_S", PATIENCE_S)


@pytest.mark.processes
def test_a_killed_runner_is_started_again_and_a_stopped_one_is_not(home: Home) -> None:
    assert start(home)
    wait_until(lambda: runner_process(home) is not None, "the runner is alive")
    assert not start(home)
    assert not look(home)
    first = runner_process(home)
    assert first is not None
    os.kill(first.pid, signal.SIGKILL)
    wait_until(lambda: not is_alive(first), "the runner is dead")
    assert look(home)
    wait_until(lambda: runner_process(home) not in (None, first), "the next runner is alive")
    with Store.open(home) as store:
        store.runner.ask_to_stop()
    wait_until(lambda: runner_process(home) is None and not is_running(home), "the runner has stopped")
    assert not look(home)


@pytest.mark.processes
def test_a_dead_runner_whose_lock_lingers_is_started_again_at_once(home: Home, store: Store) -> None:
    """What a kill leaves for a moment: a thread of the dead, or a child it was about to start, still holds the lock."""
    store.runner.register(replace(me(), started_ticks=1), cores=1, gpus=0)
    lock = FileLock(home.runner_lock, thread_local=False)
    lock.acquire()
    release = threading.Timer(0.5, lock.release)
    release.start()
    assert look(home)
    release.join()
    wait_until(lambda: runner_process(home) is not None, "the runner is alive")
    store.runner.ask_to_stop()
    wait_until(lambda: not is_running(home), "the runner has stopped")


def test_a_store_of_an_older_version_is_brought_up_to_date(home: Home) -> None:
    with Store.open(home) as store:
        store.runner.register(me(), cores=1, gpus=0)
    with Store.open(home) as store, store.db.change() as connection:
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


class Answer(http.server.BaseHTTPRequestHandler):
    """Answers as the console's health route, or as anything else."""

    body = b"hello"

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: object) -> None:
        """Keep the test's output clean."""


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr("app.web.port_check.WITHIN_S", PATIENCE_S)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


def test_a_free_port_is_no_complaint_and_a_taken_one_is_told_with_the_cure(
    served: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert complaint(port) == ""
    assert f"Port {served} is in use by another program" in complaint(served)
    assert f"make run PORT={served + 1}" in complaint(served)
    monkeypatch.setattr(Answer, "body", b'{"console":"parallab"}')
    assert "a Parallab console: open it in the browser" in complaint(served)


HEAPS_OF_32_THREADS = """
import ctypes, sys, threading
from app.web.supervision import share_heaps
if sys.argv[1] == "shared":
    share_heaps()
here = threading.Barrier(33)

def work():
    kept = [bytes(2_000) for _ in range(2_000)]
    here.wait()
    here.wait()

for _ in range(32):
    threading.Thread(target=work).start()
here.wait()
libc = ctypes.CDLL(None)
libc.malloc_info(0, ctypes.c_void_p.in_dll(libc, "stdout"))
libc.fflush(None)
here.wait()
"""

HOLES = """
import psutil
from app.web.supervision import give_back
def resident_mb():
    return psutil.Process().memory_info().rss / 1e6
parts = [bytes(2_000) for _ in range(50_000)]
parts = [part for number, part in enumerate(parts) if number % 100 == 99]
before = resident_mb()
give_back()
print(before - resident_mb())
"""
only_glibc = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="heaps of threads, and giving back what lies between, are glibc's"
)


@pytest.mark.processes
@only_glibc
@pytest.mark.parametrize("way", ["shared", "usual"])
def test_many_threads_share_few_heaps(way: str) -> None:
    found = subprocess.run(
        [sys.executable, "-c", HEAPS_OF_32_THREADS, way],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    heaps = found.stdout.count("<heap nr=")
    assert (heaps <= HEAPS) == (way == "shared"), "as usual there are more, or this would show nothing"


@pytest.mark.processes
@only_glibc
def test_what_lies_free_between_what_is_kept_is_given_back() -> None:
    found = subprocess.run(
        [sys.executable, "-c", HOLES], cwd=ROOT, capture_output=True, text=True, check=True, timeout=PATIENCE_S
    )
    assert float(found.stdout) > 60, "of 100 MB, 99 are free between the blocks that are kept"


@pytest.mark.processes
def test_the_console_loads_without_a_warning() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import app.asgi"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("", "")
