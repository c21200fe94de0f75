"""What a dead runner left of runs that have ended is seen to when the next one starts; runs that are on are not touched
by it.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.home import Home
from engine.runner import run_supervisor
from engine.runner.runner import Runner, inherit
from engine.store import Launch, RankRow, Reader, Store
from engine.store.records import Demand, ProcessIdentity
from engine.store.timestamps import now
from engine.system.processes import boot_id, identity, is_alive, session_members
from engine.system.runner_process import ensure_running, runner_process
from tests.runner.test_runner import paper, runner
from tests.waiting import wait_until

pytestmark = pytest.mark.processes
__all__ = ["runner"]
LEADER = (
    "import subprocess, sys; print(subprocess.Popen(['sleep', '600'], stdout=subprocess.DEVNULL).pid, flush=True); "
    "sys.stdin.read()"
)


@pytest.fixture
def worker() -> Iterator["subprocess.Popen[bytes]"]:
    """Start what acts as a worker with one rank in its session; it ends when its input is closed, its rank does not."""
    process = subprocess.Popen(
        [sys.executable, "-c", LEADER], start_new_session=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout
    rank = identity(int(process.stdout.readline()))
    yield process
    if process.stdin and not process.stdin.closed:
        process.communicate()
    if rank and is_alive(rank):
        os.kill(rank.pid, 9)


@pytest.fixture
def segment() -> Iterator[Path]:
    """Make a segment of torch whose maker is gone."""
    maker = subprocess.Popen([sys.executable, "-c", ""])
    maker.wait()
    path = Path("/dev/shm") / f"torch_{maker.pid}_parallab_{os.getpid()}"
    path.write_bytes(bytes(64))
    yield path
    path.unlink(missing_ok=True)


def begun(store: Store, worker: ProcessIdentity, segment: Path) -> int:
    """Bring a run to `starting` whose one rank made the segment."""
    run_id = store.runs.add(Launch("hogwild", {}, "ada", demand=Demand(1, 0, 1, 1)))
    store.claims.claim(run_id, worker, ())
    store.worker.begin(run_id, worker, {})
    store.worker.add_ranks(run_id, [RankRow(0, "trainer1", maker_of(segment), "cpu", "running", 1, now(), None)])
    segment.touch()  # made while the run was on
    return run_id


def of(process: "subprocess.Popen[bytes]") -> ProcessIdentity:
    found = identity(process.pid)
    assert found
    return found


def maker_of(segment: Path) -> int:
    return int(segment.name.split("_")[1])


def cleanings(home: Home, run_id: int) -> list[tuple[str, str]]:
    with Reader.open(home) as reader:
        return [(event.who, event.detail) for event in reader.details.events(run_id) if event.kind == "cleaned up"]


def test_a_worker_that_outstays_its_ended_run_has_its_time_and_is_then_killed(
    home: Home,
    runner: Runner,
    store: Store,
    worker: "subprocess.Popen[bytes]",
    segment: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run_id = begun(store, of(worker), segment)
    store.claims.end(run_id, "finished", "Completed successfully")
    inherit(home, runner.endings)
    assert cleanings(home, run_id) == [("runner", f"shared memory {segment} of run {run_id}")]
    assert not segment.exists()
    runner.step()
    assert worker.poll() is None, "it may still be ending"
    monkeypatch.setattr(run_supervisor, "EXIT_DEADLINE_S", 0.0)
    runner.step()
    assert paper(runner).cancelled == [(worker.pid, True)]
    runner.step()
    assert worker.wait() == -9
    assert runner.endings.watched == {}


def test_a_run_that_is_on_keeps_its_processes_and_memory(
    home: Home, runner: Runner, store: Store, worker: "subprocess.Popen[bytes]", segment: Path
) -> None:
    begun(store, of(worker), segment)
    inherit(home, runner.endings)
    runner.step()
    assert (worker.poll(), segment.exists(), paper(runner).cancelled) == (None, True, [])


def test_a_new_runner_ends_what_the_killed_one_left(
    home: Home, worker: "subprocess.Popen[bytes]", segment: Path
) -> None:
    known = of(worker)
    with Store.open(home) as store:
        run_id = begun(store, known, segment)
        store.runner.register(ProcessIdentity(boot_id(), 2**22 + 7, 1), cores=2, gpus=0)
        store.claims.end(run_id, "finished", "Completed successfully")
    worker.communicate()
    (left,) = session_members(known)
    assert ensure_running(home)
    wait_until(
        lambda: identity(left) is None and not segment.exists(),
        "the new runner has ended the rank and removed its memory",
    )
    serving = runner_process(home)
    with Store.open(home) as store:
        store.runner.ask_to_stop()
    assert serving
    wait_until(lambda: not is_alive(serving), "the runner ends")
    assert (f"shared memory {segment} of run {run_id}") in cleanings(home, run_id)[0][1]
