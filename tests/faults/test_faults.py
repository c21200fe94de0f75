"""Real processes killed at real moments: the run gets the right status and cause, and no process is left behind.

One runner serves the whole module, and runs are started together; each test kills something of runs of its own (the
runner's own deaths come last).
"""

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from engine.errors import RunnerError
from engine.home import Home
from engine.runner.runner import serve
from engine.store import Reader
from engine.store.records import ENDED
from engine.system.processes import identity, is_alive, session_members
from engine.system.runner_process import ensure_running, is_running
from tests.faults.commit_log import committed, environment, lost, points
from tests.faults.lab import Lab, go_on
from tests.faults.test_matrix import LATE
from tests.waiting import wait_until

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Serve a home; afterwards nothing of it may be alive, and no point that was committed may be lost."""
    folder = tmp_path_factory.mktemp("faults")
    made = Lab(Home(folder / "home").create())
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment(folder / "commits.jsonl").items():
            patch.setenv(name, value)
        made.serve()
        made.start(5)
        yield made
        made.close()
    assert_nothing_lost(made.home, folder / "commits.jsonl")


def assert_nothing_lost(home: Home, log: Path) -> None:
    known = committed(log)
    assert points(curve for curves in known.values() for curve in curves.values()) > 0
    with Reader.open(home) as reader:
        assert [words for run_id, curves in known.items() for words in lost(reader, run_id, curves)] == []


def test_a_killed_rank_fails_the_run_by_name(lab: Lab) -> None:
    run_id = lab.training()
    pid = lab.ranks(run_id)["trainer2"]
    os.kill(pid, signal.SIGKILL)
    run = lab.ended(run_id)
    assert run.status == "failed"
    assert f"trainer2 (rank 1, pid {pid}) was killed by signal 9 (SIGKILL" in run.cause


def test_a_killed_worker_leaves_a_lost_run_with_its_points_and_no_process(lab: Lab) -> None:
    run_id = lab.training()
    worker, before = lab.worker(run_id), lab.points(run_id)
    os.kill(worker.pid, signal.SIGKILL)
    run = lab.ended(run_id)
    assert run.status == "lost"
    assert f"The worker (pid {worker.pid}) was killed by signal 9" in run.cause
    assert lab.points(run_id) >= before > 0


def test_a_cancel_ends_a_stopped_rank_and_a_worker_that_hangs(lab: Lab) -> None:
    stopped, hanging = lab.training(), lab.training()
    os.kill(lab.ranks(stopped)["trainer1"], signal.SIGSTOP)
    os.kill(lab.worker(hanging).pid, signal.SIGSTOP)
    assert [lab.cancel(run_id) for run_id in (stopped, hanging)] == ["stopping", "stopping"]
    for run_id in (stopped, hanging):
        run = lab.ended(run_id)
        assert (run.status, LATE.sub("", run.cause)) == ("cancelled", "Cancelled by grace.")


def test_a_raising_rank_fails_the_run_with_its_traceback(lab: Lab) -> None:
    run_id = lab.launch("reference", {"dataset": "digits", "epochs": 1_000, "device": "cpu", "checkpoint_every_s": 1})
    lab.until_training(run_id)
    for number in range(1, 500):
        with suppress(FileExistsError):
            (lab.home.run_folder(run_id) / f"checkpoint-{number}.part").mkdir()  # where the rank wants a file
    run = lab.ended(run_id)
    assert run.status == "failed"
    assert "raised IsADirectoryError" in run.cause
    assert "Traceback" in run.error


@pytest.mark.long  # 10 s of a real run; a killed worker is above, and test_matrix.py kills each process at each stage
def test_a_worker_killed_while_its_run_starts_leaves_a_lost_run(lab: Lab) -> None:
    run_id = lab.launch()
    held = lab.hold(run_id)  # most of the time while it starts; what comes of it is the same later
    worker = lab.worker(run_id)
    os.kill(worker.pid, signal.SIGKILL)
    go_on(held)
    run = lab.ended(run_id)
    assert (run.status, f"The worker (pid {worker.pid}) was killed by signal 9" in run.cause) == ("lost", True)


def test_sigterm_from_outside_is_told_apart_from_a_cancel(lab: Lab) -> None:
    run_id = lab.training()
    os.kill(lab.worker(run_id).pid, signal.SIGTERM)
    run = lab.ended(run_id)
    assert run.status == "failed"
    assert "SIGTERM from outside" in run.cause


def test_a_second_runner_is_refused_with_the_first_ones_pid(lab: Lab) -> None:
    assert not ensure_running(lab.home)
    with pytest.raises(RunnerError, match=f"already running .* \\(pid {lab.runner().pid}\\)"):
        serve(lab.home)


def test_a_killed_runner_leaves_its_runs_alone_and_the_next_takes_them_over(lab: Lab) -> None:
    lab.start(3)
    training, forsaken, stopping = lab.training(), lab.training(), lab.training()
    first, worker = lab.runner(), lab.worker(forsaken)
    held = lab.ranks(stopping)["trainer1"]
    os.kill(held, signal.SIGSTOP)
    assert lab.cancel(stopping) == "stopping"
    for pid in (first.pid, worker.pid):
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not is_running(lab.home), "the runner is dead")
    assert lab.goes_on(training)
    assert lab.serve() != first
    go_on(held)
    assert lab.run(training).status not in ENDED
    lab.cancel(training)
    assert [lab.ended(run_id).status for run_id in (training, stopping, forsaken)] == ["cancelled", "cancelled", "lost"]
    assert "is gone during the run" in lab.run(forsaken).cause


def test_a_killed_runner_takes_its_spare_worker_with_it(lab: Lab) -> None:
    lab.cancel_all()
    first = lab.runner()
    wait_until(lambda: _warm(lab.home) and _reaped(first.pid), "a spare worker stands ready and no other is left")
    spares = [child for child in psutil.Process(first.pid).children() if "engine.worker" in " ".join(child.cmdline())]
    sessions = [known for spare in spares if (known := identity(spare.pid))]
    assert sessions
    os.kill(first.pid, signal.SIGKILL)
    wait_until(
        lambda: not any(session_members(session) for session in sessions),
        "the spare worker is gone with all that it started",
    )


def _reaped(pid: int) -> bool:
    """Say whether none of a runner's ended workers is left as a zombie."""
    try:
        return all(child.status() != psutil.STATUS_ZOMBIE for child in psutil.Process(pid).children())
    except psutil.NoSuchProcess:
        return False  # one of them was reaped this moment


def _warm(home: Home) -> bool:
    with Reader.open(home) as reader:
        row = reader.runner.current()
    return bool(row and row.warm)


def test_a_runner_and_its_run_end_with_their_home(tmp_path: Path) -> None:
    """They went on for ever, writing into files that nobody could read."""
    lab = Lab(Home(tmp_path / "home").create())
    runner = lab.serve()
    lab.start(1)
    with (tmp_path / "home" / "runner.log").open() as log:
        started = psutil.Process(runner.pid).children(recursive=True)
        assert started
        lab.home.path.rename(tmp_path / "moved")
        shutil.rmtree(tmp_path / "moved")
        wait_until(lambda: not is_alive(runner), "the runner ends")
        wait_until(lambda: not any(map(_lives, started)), "all that it has started ends")
        assert "was deleted, moved or replaced while this process" in log.read()
    assert not lab.home.path.exists()


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
