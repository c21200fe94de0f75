"""What is left over, found among real processes, folders and mapped files; what is in use is never listed."""

import mmap
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.home import ROOT, Home
from engine.runtime.leftovers import Leftover, leftovers
from engine.runtime.processes import end_session, identity, me
from engine.store import Demand, Reader, Store
from engine.store.records import ProcessIdentity

GONE = 2**22 + 7
"""A pid that no process has: Linux gives none above 2^22."""


@pytest.fixture
def worker() -> Iterator[ProcessIdentity]:
    """Start a leader of a session that ends, and leaves a process in it; return who the leader was."""
    program = "import subprocess, sys; subprocess.Popen(['sleep', '60']); print('up', flush=True); sys.stdin.read()"
    process = subprocess.Popen([sys.executable, "-c", program], start_new_session=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin and process.stdout
    process.stdout.readline()
    found = identity(process.pid)
    assert found is not None
    process.stdin.close()
    process.wait()
    process.stdout.close()
    yield found
    end_session(found, grace_s=0.0)


def found(home: Home, memory: Path) -> list[Leftover]:
    with Reader.open(home) as reader:
        return leftovers(home, reader, memory)


def test_a_process_is_left_over_once_its_run_has_ended_and_a_moment_has_passed(
    home: Home, tmp_path: Path, worker: ProcessIdentity, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(home) as store:
        run_id = store.add_run("hogwild", {}, owner="ada", demand=Demand(1, 0, 1, 1))
        store.claim(run_id, worker, ())
        monkeypatch.setattr("engine.runtime.leftovers.GRACE_S", 0.0)
        assert found(home, tmp_path) == [], "its run is still on"
        store.end(run_id, "lost", "The worker is gone.")
        monkeypatch.setattr("engine.runtime.leftovers.GRACE_S", 60.0)
        assert found(home, tmp_path) == [], "it may just be ending"
        monkeypatch.setattr("engine.runtime.leftovers.GRACE_S", 0.0)
    (only,) = found(home, tmp_path)
    assert (only.kind, only.why) == ("process", f"Started for run {run_id}, which has ended: sleep 60")
    assert identity(int(only.name)) is not None
    end_session(worker, grace_s=0.0)
    assert found(home, tmp_path) == []


def test_a_pid_that_another_process_has_by_now_is_not_taken_for_a_worker(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.runtime.leftovers.GRACE_S", 0.0)
    leader = os.getsid(0)
    with Store.open(home) as store:
        run_id = store.add_run("hogwild", {}, owner="ada", demand=Demand(1, 0, 1, 1))
        store.claim(run_id, ProcessIdentity(me().boot_id, leader, 1), ())
        store.end(run_id, "lost", "The worker is gone.")
    assert found(home, tmp_path) == []


def test_a_worker_without_run_and_runner_is_left_over(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.runtime.leftovers.GRACE_S", 0.0)
    words = [sys.executable, "-c", "import time; time.sleep(60)", "engine.worker", "--home", str(home.path)]
    with subprocess.Popen(words, cwd=ROOT, start_new_session=True) as process:
        try:
            assert [(one.name, one.why) for one in found(home, tmp_path)] == [(str(process.pid), "A worker that has no run, and whose runner is gone.")]
            with Store.open(home) as store:
                store.register_runner(me(), cores=2, gpus=0)
            assert found(home, tmp_path) == [], "its parent serves the store"
        finally:
            process.kill()


def test_a_folder_without_a_run_is_left_over(home: Home, tmp_path: Path) -> None:
    with Store.open(home) as store:
        run_id = store.add_run("hogwild", {}, owner="ada", demand=Demand(1, 0, 1, 1))
    for name in (str(run_id), "99"):
        (home.run_folder(run_id).parent / name / "logs").mkdir(parents=True)
        (home.run_folder(run_id).parent / name / "logs" / "worker.log").write_text("12345")
    assert found(home, tmp_path) == [Leftover("folder", str(home.run_folder(99)), "No run of this store has this folder.", 5)]


def test_a_segment_is_left_over_when_its_maker_is_gone_and_nobody_has_it_mapped(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lost, used, mine = (tmp_path / f"torch_{pid}_{number}_0" for number, pid in enumerate((GONE, GONE, os.getpid())))
    for path in (lost, used, mine, tmp_path / "sem.other"):
        path.write_bytes(b"x" * 4096)
    with used.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ):
        assert found(home, tmp_path) == [], "it has just been made"
        monkeypatch.setattr("engine.runtime.leftovers.GRACE_S", -1.0)
        assert [(one.kind, one.name, one.size_bytes) for one in found(home, tmp_path)] == [("shared memory", str(lost), 4096)]
