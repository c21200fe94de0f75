"""What is left over is taken away on request: only what was listed, is ours, and still is left over at that moment."""

import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from engine.home import Home
from engine.store import ProcessIdentity, Reader, Store
from engine.system.processes import identity
from engine.upkeep.leftovers import clean
from tests.upkeep.conftest import GONE, HOUR_AGO, found

pytestmark = pytest.mark.processes
Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing be too young to count, and what was killed have time to be gone."""
    monkeypatch.setattr("engine.upkeep.leftovers.GRACE_S", -1.0)
    monkeypatch.setattr("engine.upkeep.leftovers.KILL_S", 60.0)


@pytest.fixture
def start() -> Iterator[Start]:
    """Start processes in sessions of their own; end them afterwards."""
    started: list[subprocess.Popen[bytes]] = []

    def go(*words: str) -> "subprocess.Popen[bytes]":
        started.append(subprocess.Popen(words or ("sleep", "600"), start_new_session=True, stdout=subprocess.PIPE))
        return started[-1]

    yield go
    for process in started:
        process.kill()
        process.communicate()


def worker_in(process: "subprocess.Popen[bytes]") -> ProcessIdentity:
    found = identity(process.pid)
    assert found
    return found


def events(home: Home, run_id: int) -> list[tuple[str, str, str]]:
    with Reader.open(home) as reader:
        return [
            (event.kind, event.who, event.detail)
            for event in reader.details.events(run_id)
            if event.kind in ("cleaned up", "left behind")
        ]


def test_all_that_was_listed_goes_and_who_asked_is_kept(
    home: Home, store: Store, memory: Path, start: Start, run_with: Callable[..., int]
) -> None:
    process = start()
    run_id = run_with(worker_in(process))
    orphan, scrap, segment = (
        home.path / "runs" / "41",
        home.run_folder(run_id) / "checkpoint.pt.part",
        memory / f"torch_{GONE}_1_0",
    )
    for folder in (orphan, scrap.parent):
        folder.mkdir(parents=True)
    (orphan / "checkpoint.pt").write_text("worth something")
    os.utime(orphan, (HOUR_AGO, HOUR_AGO))
    scrap.write_text("half")
    segment.write_bytes(bytes(64))
    store.claims.end(run_id, "lost", "The worker is gone.")
    cleared = clean(home, found(home, memory), by="Ada", shared_memory=memory)
    mine = [
        f"process {process.pid} of run {run_id}",
        f"shared memory {segment} of run {run_id}",
        f"file {scrap} of run {run_id}",
    ]
    assert (sorted(cleared.removed), cleared.left) == (sorted([*mine, f"folder {orphan}"]), [])
    assert process.wait() == -15
    assert (segment.exists(), scrap.exists(), orphan.exists()) == (False, False, False)
    assert [path.read_text() for path in home.aside.glob("orphans-*/41/checkpoint.pt")] == ["worth something"]
    assert found(home, memory) == []
    assert events(home, run_id) == [("cleaned up", "Ada", ", ".join(mine))]
    (line,) = home.runner_log.read_text().splitlines()
    assert f"Z INFO Ada cleaned up: process {process.pid} of run {run_id}, folder {orphan}, " in line


def test_what_was_not_listed_or_is_not_ours_stays(
    home: Home, store: Store, memory: Path, start: Start, run_with: Callable[..., int]
) -> None:
    process = start()
    run_id = run_with(worker_in(process))
    store.claims.end(run_id, "lost", "The worker is gone.")
    strange = memory / f"torch_{GONE + 2}_1_0"
    strange.write_bytes(b"x")
    notes = home.path / "runs" / "notes"
    notes.mkdir(parents=True)
    os.utime(notes, (HOUR_AGO, HOUR_AGO))
    listed = found(home, memory)
    assert {one.name for one in listed} == {str(process.pid), str(strange), str(notes)}
    cleared = clean(home, [one for one in listed if one.kind != "process"], by="Ada", shared_memory=memory)
    assert (cleared.removed, cleared.left) == ([], [])
    assert process.poll() is None
    assert (strange.exists(), notes.exists()) == (True, True)
    assert not home.runner_log.exists()


def test_a_pid_that_names_another_process_by_now_is_passed_over(
    home: Home, store: Store, memory: Path, start: Start, run_with: Callable[..., int]
) -> None:
    process = start()
    run_id = run_with(worker_in(process))
    store.claims.end(run_id, "lost", "The worker is gone.")
    (listed,) = found(home, memory)
    assert listed.process
    earlier = replace(listed, process=replace(listed.process, started_ticks=listed.process.started_ticks - 100))
    assert clean(home, [earlier], by="Ada", shared_memory=memory).removed == []
    assert process.poll() is None


def test_what_came_to_belong_to_a_live_run_since_it_was_listed_is_passed_over(
    home: Home, store: Store, memory: Path, start: Start, run_with: Callable[..., int]
) -> None:
    process = start()
    first = run_with(worker_in(process))
    segment = memory / f"torch_{GONE}_1_0"
    segment.write_bytes(b"x")
    store.claims.end(first, "lost", "The worker is gone.")
    listed = found(home, memory)
    assert {one.kind for one in listed} == {"process", "shared memory"}
    run_with(worker_in(process), GONE)
    segment.touch()  # while that run is on
    assert clean(home, listed, by="Ada", shared_memory=memory).removed == []
    assert (process.poll(), segment.exists()) == (None, True)


def test_memory_that_only_the_ended_processes_had_mapped_goes_with_them(
    home: Home, store: Store, memory: Path, start: Start, run_with: Callable[..., int]
) -> None:
    segment = memory / f"torch_{GONE}_1_0"
    segment.write_bytes(bytes(4096))
    holds = (
        "import mmap, signal, time; signal.signal(15, signal.SIG_IGN); file = open({!r}, 'r+b'); held = "
        "mmap.mmap(file.fileno(), 0);"
    )
    process = start("python3", "-c", f"{holds.format(str(segment))} print('up', flush=True); time.sleep(600)")
    assert process.stdout
    process.stdout.readline()
    run_id = run_with(worker_in(process))
    segment.touch()  # while the run is on
    store.claims.end(run_id, "lost", "The worker is gone.")
    listed = found(home, memory)
    assert [one.kind for one in listed] == ["process"], "the segment is in use"
    cleared = clean(home, listed, by="Ada", shared_memory=memory)
    assert cleared.removed == [f"process {process.pid} of run {run_id}", f"shared memory {segment} of run {run_id}"]
    assert (process.wait(), segment.exists()) == (-9, False), "it ignores the first signal"


def test_what_can_not_be_removed_is_said_and_kept(
    home: Home, store: Store, memory: Path, run_with: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = run_with()
    segment = memory / f"torch_{GONE}_1_0"
    segment.write_bytes(b"x")
    store.claims.end(run_id, "lost", "The worker is gone.")
    listed = found(home, memory)

    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "unlink", refuse)
    cleared = clean(home, listed, by="Ada", shared_memory=memory)
    said = f"shared memory {segment} of run {run_id} (Permission denied)"
    assert (cleared.left, cleared.removed) == ([said], [])
    assert events(home, run_id) == [("left behind", "Ada", f"Could not be removed: {said}.")]
    assert home.runner_log.read_text().strip().endswith(f"Ada could not clean up: {said}")
