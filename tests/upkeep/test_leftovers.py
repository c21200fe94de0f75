"""What is left over, found among real processes, folders and mapped files; what is in use is never listed."""

import mmap
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from engine.home import ROOT, Home
from engine.store import Demand, Launch, Store
from engine.store.records import ProcessIdentity
from engine.system.processes import MARK, end_session, identity, mark, me
from tests.upkeep.conftest import GONE, HOUR_AGO, found


@pytest.fixture
def worker() -> Iterator[ProcessIdentity]:
    """Start a leader of a session that ends, and leaves a process in it; return who the leader was."""
    program = "import subprocess, sys; subprocess.Popen(['sleep', '600']); print('up', flush=True); sys.stdin.read()"
    process = subprocess.Popen(
        [sys.executable, "-c", program], start_new_session=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin and process.stdout
    process.stdout.readline()
    found = identity(process.pid)
    assert found is not None
    process.stdin.close()
    process.wait()
    process.stdout.close()
    yield found
    end_session(found, grace_s=0.0)


@pytest.mark.processes
def test_a_process_is_left_over_once_its_run_has_ended_and_a_moment_has_passed(
    home: Home, tmp_path: Path, worker: ProcessIdentity, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(home) as store:
        run_id = store.runs.add(Launch("hogwild", {}, "ada", demand=Demand(1, 0, 1, 1)))
        store.claims.claim(run_id, worker, ())
        monkeypatch.setattr("engine.upkeep.leftovers.GRACE_S", 0.0)
        assert found(home, tmp_path) == [], "its run is still on"
        store.claims.end(run_id, "lost", "The worker is gone.")
        monkeypatch.setattr("engine.upkeep.leftovers.GRACE_S", 60.0)
        assert found(home, tmp_path) == [], "it may just be ending"
        monkeypatch.setattr("engine.upkeep.leftovers.GRACE_S", 0.0)
    (only,) = found(home, tmp_path)
    assert (only.kind, only.why) == ("process", f"Belongs to run {run_id}, which has ended: sleep 600")
    assert identity(int(only.name)) is not None
    end_session(worker, grace_s=0.0)
    assert found(home, tmp_path) == []


@pytest.mark.processes
def test_a_pid_that_another_process_has_by_now_is_not_taken_for_a_worker(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.upkeep.leftovers.GRACE_S", 0.0)
    leader = os.getsid(0)
    with Store.open(home) as store:
        run_id = store.runs.add(Launch("hogwild", {}, "ada", demand=Demand(1, 0, 1, 1)))
        store.claims.claim(run_id, ProcessIdentity(me().boot_id, leader, 1), ())
        store.claims.end(run_id, "lost", "The worker is gone.")
    assert found(home, tmp_path) == []


@pytest.mark.processes
def test_a_worker_without_run_and_runner_is_left_over(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.upkeep.leftovers.GRACE_S", 0.0)
    words = [sys.executable, "-c", "import time; time.sleep(600)", "engine.worker", "--home", str(home.path)]
    with subprocess.Popen(words, cwd=ROOT, start_new_session=True) as process:
        try:
            with monkeypatch.context() as earlier:
                earlier.setattr(
                    time, "time", lambda: 0.0
                )  # the clock is put back: how old a process is does not hang on it
                assert [(one.name, one.why) for one in found(home, tmp_path)] == [
                    (str(process.pid), "Worker without a run, whose runner is gone.")
                ]
            with Store.open(home) as store:
                store.runner.register(me(), cores=2, gpus=0)
            assert found(home, tmp_path) == [], "its parent serves the store"
        finally:
            process.kill()


@pytest.mark.processes
def test_a_process_that_left_its_session_is_known_by_its_mark(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.upkeep.leftovers.GRACE_S", 0.0)
    leader = ProcessIdentity(me().boot_id, GONE, 77)
    with Store.open(home) as store:
        run_id = store.runs.add(Launch("hogwild", {}, "ada", demand=Demand(1, 0, 1, 1)))
        store.claims.claim(run_id, leader, ())
        with subprocess.Popen(
            ["sleep", "600"], start_new_session=True, env=os.environ | {MARK: mark(leader)}
        ) as process:
            try:
                assert found(home, tmp_path) == [], "its run is still on"
                store.claims.end(run_id, "lost", "The worker is gone.")
                (only,) = found(home, tmp_path)
                assert (only.name, only.run_id, only.process) == (str(process.pid), run_id, identity(process.pid))
            finally:
                process.kill()


def test_a_folder_without_a_run_is_left_over_and_what_no_run_is_named_like_is_only_shown(
    home: Home, tmp_path: Path
) -> None:
    with Store.open(home) as store:
        run_id = store.runs.add(Launch("hogwild", {}, "ada", demand=Demand(1, 0, 1, 1)))
    runs = home.run_folder(run_id).parent
    for name in (str(run_id), "99", "100", "notes"):
        (runs / name / "logs").mkdir(parents=True)
        (runs / name / "logs" / "worker.log").write_text("12345")
    (runs / "todo.txt").write_text("1")
    for name in (str(run_id), "99", "notes", "todo.txt"):
        os.utime(runs / name, (HOUR_AGO, HOUR_AGO))
    seen = {Path(one.name).name: one for one in found(home, tmp_path)}
    assert {name: (one.kind, one.is_ours, one.size_bytes) for name, one in seen.items()} == {
        "99": ("folder", True, 5),
        "notes": ("folder", False, 5),
        "todo.txt": ("file", False, 1),
    }, "100 has just been made"
    assert seen["99"].why == "No run of this store uses this folder."


def test_half_written_files_of_ended_runs_and_of_the_store_are_left_over(home: Home, tmp_path: Path) -> None:
    with Store.open(home) as store:
        on, ended = (store.runs.add(Launch("hogwild", {}, "ada", demand=Demand(1, 0, 1, 1))) for _ in range(2))
        store.runs.cancel(ended, by="ada")
    for run_id in (on, ended):
        home.run_folder(run_id).mkdir(parents=True)
        for name in ("checkpoint.pt", "checkpoint.pt.part", "weights.lock", "rpc.rendezvous", "lines"):
            (home.run_folder(run_id) / name).write_text("x")
    (home.path / "parallab.db.part").write_text("half")
    os.utime(home.path / "parallab.db.part", (HOUR_AGO, HOUR_AGO))
    folder = home.run_folder(ended)
    assert [(one.kind, one.name, one.run_id) for one in found(home, tmp_path)] == [
        *(
            ("file", str(folder / name), ended)
            for name in ("checkpoint.pt.part", "lines", "rpc.rendezvous", "weights.lock")
        ),
        ("file", str(home.path / "parallab.db.part"), None),
    ]


# ---- shared memory -------------------------------------------------------------------------------------------------


def end(home: Home, run_id: int) -> None:
    with Store.open(home) as store:
        store.claims.end(run_id, "lost", "The worker was killed.")


def segments(home: Home, memory: Path) -> dict[str, bool]:
    """Return what is left of shared memory, and whether it is surely ours."""
    return {Path(one.name).name: one.is_ours for one in found(home, memory) if one.kind == "shared memory"}


def test_a_segment_is_ours_when_a_run_that_has_ended_made_it_and_any_other_is_only_shown(
    home: Home, memory: Path, run_with: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = run_with(None, os.getpid(), GONE)
    ours, strange, old = f"torch_{GONE}_1_0", f"torch_{GONE + 2}_1_0", f"torch_{GONE}_9_9"
    for name in (
        ours,
        strange,
        old,
        f"torch_{os.getpid()}_1_0",
        "torch_x_1",
        "sem.mp-1",
        f"psm_{GONE}",
        f"other_{GONE}_1",
    ):
        (memory / name).write_bytes(b"x" * 4096)
    os.utime(memory / old, (HOUR_AGO, HOUR_AGO))
    monkeypatch.setattr("engine.upkeep.leftovers.GRACE_S", 600.0)
    assert segments(home, memory) == {old: False}, "the others have just been made"
    monkeypatch.setattr("engine.upkeep.leftovers.GRACE_S", -1.0)
    assert segments(home, memory) == {strange: False, old: False}, "the run is still on"
    end(home, run_id)
    (first,) = (one for one in found(home, memory) if one.is_ours)
    assert segments(home, memory) == {ours: True, strange: False, old: False}
    assert (first.name, first.size_bytes, first.run_id) == (str(memory / ours), 4096, run_id)
    assert first.why == f"Created by process {GONE} of run {run_id}, which has ended; not mapped by any process."
    with Store.open(home) as store, store.db.change() as connection:
        connection.execute("UPDATE runs SET worker_boot_id = 'another boot'")
    assert segments(home, memory) == {ours: False, strange: False, old: False}


@pytest.mark.parametrize("way", ["mapped", "open"])
def test_a_segment_that_someone_has_mapped_or_open_is_not_left_over(
    home: Home, memory: Path, run_with: Callable[..., int], monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setattr("engine.upkeep.leftovers.GRACE_S", -1.0)
    run_id = run_with(None, os.getpid(), GONE)
    used, longer = memory / f"torch_{GONE}_1_0", memory / f"torch_{GONE}_1_01"
    for path in (used, longer):
        path.write_bytes(b"x" * 4096)
    end(home, run_id)
    with ExitStack() as stack:
        file = stack.enter_context(longer.open("rb"))
        if way == "mapped":
            stack.enter_context(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            file.close()
        assert segments(home, memory) == {used.name: True}, (
            "a longer name of another segment says nothing about this one"
        )
    assert segments(home, memory) == {used.name: True, longer.name: True}


def test_a_pid_that_a_live_run_has_too_keeps_its_segments(
    home: Home, memory: Path, run_with: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.upkeep.leftovers.GRACE_S", -1.0)
    end(home, run_with(None, os.getpid(), GONE))
    live = run_with(None, os.getpid(), GONE)
    (memory / f"torch_{GONE}_1_0").write_bytes(b"x")
    assert segments(home, memory) == {}
    end(home, live)
    assert segments(home, memory) == {f"torch_{GONE}_1_0": True}
