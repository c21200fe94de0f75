"""Real processes killed at real moments: the run gets the right status and cause, and no process is left behind.

One runner serves the whole module; each test kills something of its own run (the runner's own deaths come last).
"""

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import psutil
import pytest

from engine.errors import RunnerError
from engine.home import Home
from engine.launch import launch
from engine.registry import experiment
from engine.runtime.processes import identity, is_alive, session_members
from engine.runtime.runner import serve
from engine.runtime.running import ensure_running, is_running, runner_process
from engine.store import Reader, Store
from engine.store.records import ENDED, ProcessIdentity, Run
from tests.faults.test_matrix import LATE

pytestmark = pytest.mark.timeout(300)
LONG: Mapping[str, Any] = {"dataset": "synthetic", "trainers": 2, "epochs": 1000, "device": "cpu", "threads_per_rank": 1}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """Return a home with a live runner; afterwards nothing of it may be alive."""
    home = Home(tmp_path_factory.mktemp("home")).create()
    ensure_running(home)
    wait(lambda: runner_process(home) is not None, 120)
    yield home
    process = runner_process(home)
    assert process is not None
    with Reader.open(home) as reader:
        workers = [run.worker for run in (reader.run(row.id) for row in reader.runs()) if run.worker]
    with Store.open(home) as store:
        store.ask_runner_to_stop()
    wait(lambda: not is_alive(process), 120)
    assert [session_members(worker) for worker in workers if session_members(worker)] == []
    assert session_members(process) == []


@pytest.fixture(autouse=True)
def nothing_left(served: Home) -> Iterator[None]:
    """Cancel what a failed test leaves running, so that it fails alone."""
    yield
    with Reader.open(served) as reader:
        left = [row.id for row in reader.runs() if row.status not in ENDED]
    for run_id in left:
        with Store.open(served) as store:
            store.request_cancel(run_id, by="the test's end")
    if left and is_running(served):
        wait(lambda: all(read(served, run_id).status in ENDED for run_id in left), 120)


def wait(true: Callable[[], bool], timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < deadline, f"waited {timeout_s} s in vain"
        time.sleep(0.05)


def read(home: Home, run_id: int) -> Run:
    with Reader.open(home) as reader:
        return reader.run(run_id)


def start(home: Home, **changes: Any) -> int:
    """Queue a long run and return its id once its ranks train."""
    run_id = launch(home, "hogwild", experiment("hogwild").configure(None, dict(LONG) | changes), owner="ada", timeout_s=30)
    wait(lambda: read(home, run_id).status != "queued", 120)
    wait(lambda: read(home, run_id).progress_done > 0 or read(home, run_id).status in ENDED, 120)
    assert read(home, run_id).status == "running", read(home, run_id).cause
    return run_id


def rank_pids(home: Home, run_id: int) -> dict[str, int]:
    with Reader.open(home) as reader:
        return {row.role: row.pid for row in reader.ranks(run_id) if row.pid}


def worker_of(home: Home, run_id: int) -> ProcessIdentity:
    worker = read(home, run_id).worker
    assert worker is not None
    return worker


def ended(home: Home, run_id: int) -> Run:
    """Return the run once it ended, all its processes gone."""
    worker = worker_of(home, run_id)
    wait(lambda: read(home, run_id).status in ENDED, 120)
    wait(lambda: session_members(worker) == [], 120)
    return read(home, run_id)


def points(home: Home, run_id: int) -> int:
    with Reader.open(home) as reader:
        return sum(summary.count for summary in reader.summaries(run_id))


def test_a_killed_rank_fails_the_run_by_name(served: Home) -> None:
    run_id = start(served)
    pid = rank_pids(served, run_id)["trainer2"]
    os.kill(pid, signal.SIGKILL)
    run = ended(served, run_id)
    assert run.status == "failed"
    assert f"trainer2 (rank 1, pid {pid}) was killed by signal 9 (SIGKILL" in run.cause


def test_a_raising_rank_fails_the_run_with_its_traceback(served: Home) -> None:
    with Reader.open(served) as reader:
        expected = max((row.id for row in reader.runs()), default=0) + 1
    (served.run_folder(expected) / "weights.lock").mkdir(parents=True)  # where the ranks want a file
    run_id = launch(served, "hogwild", experiment("hogwild").configure(None, dict(LONG) | {"lock": True}), owner="ada", timeout_s=30)
    assert run_id == expected
    wait(lambda: read(served, run_id).status != "queued", 120)
    run = ended(served, run_id)
    assert run.status == "failed"
    assert "raised IsADirectoryError" in run.cause
    assert "Traceback" in run.error


def test_a_killed_worker_leaves_a_lost_run_with_its_points_and_no_process(served: Home) -> None:
    run_id = start(served)
    worker, before = worker_of(served, run_id), points(served, run_id)
    os.kill(worker.pid, signal.SIGKILL)
    run = ended(served, run_id)
    assert run.status == "lost"
    assert f"The worker (pid {worker.pid}) was killed by signal 9" in run.cause
    assert points(served, run_id) >= before > 0


def test_a_cancel_ends_all_even_a_stopped_rank(served: Home) -> None:
    run_id = start(served)
    os.kill(rank_pids(served, run_id)["trainer1"], signal.SIGSTOP)
    with Store.open(served) as store:
        assert store.request_cancel(run_id, by="grace") == "stopping"
    run = ended(served, run_id)
    assert run.status == "cancelled"
    assert LATE.sub("", run.cause) == "Cancelled by grace."


def test_a_cancel_ends_a_worker_that_hangs(served: Home) -> None:
    run_id = start(served)
    os.kill(worker_of(served, run_id).pid, signal.SIGSTOP)
    with Store.open(served) as store:
        store.request_cancel(run_id, by="grace")
    assert ended(served, run_id).status == "cancelled"


def test_sigterm_from_outside_is_told_apart_from_a_cancel(served: Home) -> None:
    run_id = start(served)
    os.kill(worker_of(served, run_id).pid, signal.SIGTERM)
    run = ended(served, run_id)
    assert run.status == "failed"
    assert "SIGTERM from outside" in run.cause


def test_a_second_runner_is_refused_with_the_first_ones_pid(served: Home) -> None:
    process = runner_process(served)
    assert process is not None
    assert not ensure_running(served)
    with pytest.raises(RunnerError, match=f"already serves .* \\(pid {process.pid}\\)"):
        serve(served)


def test_a_killed_runner_leaves_the_run_alone_and_the_next_takes_it_over(served: Home) -> None:
    run_id = start(served)
    first = runner_process(served)
    assert first is not None
    os.kill(first.pid, signal.SIGKILL)
    wait(lambda: not is_running(served), 120)
    seen = read(served, run_id).progress_done
    wait(lambda: read(served, run_id).progress_done > seen, 120)
    assert ensure_running(served)
    wait(lambda: runner_process(served) not in (None, first), 120)
    with Store.open(served) as store:
        store.request_cancel(run_id, by="grace")
    assert ended(served, run_id).status == "cancelled"


def test_a_worker_killed_while_no_runner_lives_is_lost_when_one_returns(served: Home) -> None:
    run_id = start(served)
    first, worker = runner_process(served), worker_of(served, run_id)
    assert first is not None
    os.kill(first.pid, signal.SIGKILL)
    os.kill(worker.pid, signal.SIGKILL)
    wait(lambda: not is_running(served), 120)
    assert ensure_running(served)
    run = ended(served, run_id)
    assert run.status == "lost"
    assert "is gone while the run was on" in run.cause


def test_a_killed_runner_takes_its_spare_worker_with_it(served: Home) -> None:
    wait(lambda: _warm(served), 120)
    first = runner_process(served)
    assert first is not None
    wait(lambda: _reaped(first.pid), 120)
    spares = [child for child in psutil.Process(first.pid).children() if "engine.worker" in " ".join(child.cmdline())]
    sessions = [identity(spare.pid) for spare in spares]
    assert sessions
    os.kill(first.pid, signal.SIGKILL)
    for session in sessions:
        assert session is not None
        wait(lambda session=session: session_members(session) == [], 120)  # type: ignore[misc]
    assert ensure_running(served)
    wait(lambda: runner_process(served) not in (None, first), 120)


def _reaped(pid: int) -> bool:
    """Say whether none of a runner's ended workers is left as a zombie."""
    try:
        return all(child.status() != psutil.STATUS_ZOMBIE for child in psutil.Process(pid).children())
    except psutil.NoSuchProcess:
        return False  # one of them was reaped this moment


def _warm(home: Home) -> bool:
    with Reader.open(home) as reader:
        row = reader.runner()
    return bool(row and row.warm)
