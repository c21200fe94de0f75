"""A process of another PID namespace, such as another container's, is never taken for a dead one, nor for one of the
same pid here.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from engine.errors import RunnerError
from engine.home import ROOT, Home
from engine.runner.placement import LocalLauncher
from engine.runner.run_supervisor import Endings
from engine.runner.runner import serve
from engine.store import Launch, Reader, Store
from engine.store.records import Demand, ProcessIdentity
from engine.system.cleanup import Footprint, clear
from engine.system.processes import identity, is_alive, is_foreign, me, pid_namespace
from engine.system.runner_process import announce, ensure_running, has_died, is_served, lives, runner_process
from engine.upkeep.leftovers import leftovers
from tests.waiting import wait_until

pytestmark = pytest.mark.processes
UNSHARE = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
PRESENT = """
import json, sys
from dataclasses import asdict
from pathlib import Path
from engine.home import Home
from engine.system.runner_process import announce
from engine.system.processes import me
home = Home(Path(sys.argv[1]))
{}
announce(home)
print(json.dumps(asdict(me())), flush=True)
sys.stdin.read()
"""
RUNNER = """
from engine.runner.runner import taken
from engine.store import Store
held = taken(home)
with Store.open(home) as store:
    store.runner.register(me(), cores=1, gpus=0)
"""
Elsewhere = Callable[..., tuple["subprocess.Popen[bytes]", ProcessIdentity]]


def can_unshare() -> bool:
    try:
        return subprocess.run([*UNSHARE, "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0
    except FileNotFoundError:
        return False


@pytest.fixture
def elsewhere(home: Home) -> Iterator[Elsewhere]:
    """Start a program that announces itself in a PID namespace of its own; return it with its identity, and end it
    afterwards.
    """
    if not can_unshare():
        pytest.skip("this user can't make a PID namespace")
    started: list[subprocess.Popen[bytes]] = []

    def start(program: str = "", *words: str) -> tuple["subprocess.Popen[bytes]", ProcessIdentity]:
        command = [*UNSHARE, "setsid", sys.executable, "-c", PRESENT.format(program), str(home.path), *words]
        process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        started.append(process)
        assert process.stdout
        return process, ProcessIdentity(**json.loads(process.stdout.readline()))

    yield start
    for process in started:
        process.kill()
        process.communicate()


def begun(store: Store, worker: ProcessIdentity) -> int:
    run_id = store.runs.add(Launch("hogwild", {}, "ada", demand=Demand(1, 0, 1, 1)))
    store.claims.claim(run_id, worker, ())
    store.worker.begin(run_id, worker, {})
    return run_id


def test_an_identity_holds_the_pid_namespace_through_the_store(store: Store) -> None:
    assert me().pid_namespace == pid_namespace() == Path("/proc/self/ns/pid").stat().st_ino
    run_id = begun(store, me())
    store.runner.register(me(), cores=1, gpus=0)
    (worker, runner) = (store.read.runs.one(run_id).worker, store.read.runner.process())
    assert worker and runner and asdict(worker) == asdict(runner) == asdict(me())


def test_a_live_run_of_another_pid_namespace_is_neither_lost_nor_served_beside(
    home: Home, store: Store, elsewhere: Elsewhere
) -> None:
    program, worker = elsewhere()
    assert is_foreign(worker) and not is_alive(worker) and lives(home, worker)
    run_id = begun(store, worker)
    for start in (serve, ensure_running):
        with pytest.raises(
            RunnerError,
            match=(
                rf"another PID namespace.*: {run_id} \(namespace {worker.pid_namespace}\).* Start the runner in "
                r"the run's namespace"
            ),
        ):
            start(home)
    endings = Endings(store, LocalLauncher(home))
    assert [run.id for run in endings.holders()] == [run_id]
    program.kill()
    program.communicate()
    wait_until(lambda: not endings.holders(), "the run is lost")
    run = store.read.runs.one(run_id)
    assert run.status == "lost"
    assert run.cause.startswith(f"The worker (pid {worker.pid} of another PID namespace) is gone during the run.")


def test_a_live_runner_of_another_pid_namespace_is_seen_and_named(home: Home, elsewhere: Elsewhere) -> None:
    program, runner = elsewhere(RUNNER)
    assert (runner_process(home), has_died(home), is_served(home), ensure_running(home)) == (runner, False, True, False)
    with pytest.raises(
        RunnerError,
        match=rf"pid {runner.pid} of another PID namespace \({runner.pid_namespace}\), such as another container",
    ):
        serve(home)
    program.kill()
    program.communicate()
    wait_until(lambda: has_died(home), "the runner's death is seen")
    assert runner_process(home) is None


def test_a_worker_of_another_pid_namespace_is_no_leftover(home: Home, store: Store, elsewhere: Elsewhere) -> None:
    elsewhere("", "engine.worker", "--home", str(home.path))
    with Reader.open(home) as reader:
        assert leftovers(home, reader, home.path / "none", grace_s=0.0) == []


@pytest.fixture
def sleeper() -> Iterator["subprocess.Popen[bytes]"]:
    """Start a process of this namespace that does nothing."""
    process = subprocess.Popen(["sleep", "600"], start_new_session=True)
    yield process
    process.kill()
    process.wait()


def test_a_process_with_the_pid_of_a_run_of_another_namespace_is_left_alone(
    home: Home, store: Store, sleeper: "subprocess.Popen[bytes]"
) -> None:
    here = identity(sleeper.pid)
    assert here
    worker = replace(here, pid_namespace=1)
    run_id = begun(store, worker)
    store.claims.end(run_id, "finished", "Completed successfully")
    with Reader.open(home) as reader:
        assert leftovers(home, reader, home.path / "none", grace_s=0.0) == []
    launcher = LocalLauncher(home)
    for force in (False, True):
        launcher.cancel(worker, force=force)
    clear(worker, Footprint(frozenset([sleeper.pid])), home.run_folder(run_id), home.path)
    assert launcher.poll(worker) == "is gone"
    assert sleeper.poll() is None


def test_a_run_recorded_without_a_namespace_is_taken_over(
    home: Home, store: Store, sleeper: "subprocess.Popen[bytes]"
) -> None:
    here = identity(sleeper.pid)
    assert here
    run_id = begun(store, here)
    store.db.connection.execute("UPDATE runs SET worker_pid_namespace = NULL")
    store.db.connection.execute(
        (
            "INSERT INTO runner (id, boot_id, pid, started_ticks, started_at, heartbeat_at, cores, gpus) VALUES "
            "(1, ?, ?, ?, '', '', 1, 0)"
        ),
        [here.boot_id, here.pid, here.started_ticks],
    )
    before = store.read.runs.one(run_id).worker
    assert before == here and before.pid_namespace is None
    assert runner_process(home) == here
    endings = Endings(store, LocalLauncher(home))
    assert [run.id for run in endings.holders()] == [run_id]
    sleeper.kill()
    sleeper.wait()
    assert endings.holders() == []
    assert store.read.runs.one(run_id).status == "lost"


def test_a_process_that_announced_itself_can_ask_for_others_and_keeps_its_own_lock(
    home: Home, elsewhere: Elsewhere
) -> None:
    asks = (
        "from dataclasses import replace; from engine.system.runner_process import lives; announce(home); "
        "lives(home, replace(me(), pid_namespace=1))"
    )
    _, present = elsewhere(asks)
    assert lives(home, present)
    announce(home)
    assert lives(home, present) and not lives(home, replace(present, pid=present.pid + 1))
