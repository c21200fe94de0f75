"""What a run has on the machine is found and removed, even what left its worker's session; nothing of anyone else is
touched.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from engine.store.records import ProcessIdentity
from engine.system.cleanup import Footprint, _gpu_memory_left, clear, end_tree, look, tree
from engine.system.processes import MARK, identity, is_alive, mark
from tests.waiting import wait_until

pytestmark = pytest.mark.processes
WORKER = """
import os, sys
from engine.system.processes import MARK, mark, me
os.environ[MARK] = mark(me())
exec(sys.argv[1])
print("up", flush=True)
import time; time.sleep(600)
"""
ESCAPE = f"""
import os, subprocess, sys
inner = "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(os.getpid(), flush=True); time.sleep(600)"
other = subprocess.Popen([sys.executable, "-c", inner], start_new_session=True, stdout=subprocess.PIPE)
other.stdout.readline()
bare = dict(os.environ)
del bare["{MARK}"]
child = subprocess.Popen([sys.executable, "-c", inner], start_new_session=True, stdout=subprocess.PIPE, env=bare)
child.stdout.readline()
"""  # noqa: E501
Worker = Callable[[str], ProcessIdentity]


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    """Start what acts as a worker: a session of its own, which then does as told."""
    with ExitStack() as stack:

        def start(does: str) -> ProcessIdentity:
            process = stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", WORKER, does],
                    start_new_session=True,
                    stdout=subprocess.PIPE,
                    env=os.environ | {"PARALLAB_HOME": str(tmp_path)},
                )
            )
            known = identity(process.pid)
            assert known is not None
            stack.callback(end_tree, known, tmp_path)
            assert process.stdout is not None
            assert process.stdout.readline() == b"up\n"
            return known

        yield start


def test_a_kill_reaches_those_that_left_the_session(worker: Worker, tmp_path: Path) -> None:
    known = worker(ESCAPE)
    pids = tree(known, tmp_path)
    assert len(pids) == 3, "the worker, one known by its mark, one known by its parent"
    assert {os.getsid(pid) for pid in pids} == set(pids)
    assert end_tree(known, tmp_path) == []
    assert tree(known, tmp_path) == []


def test_the_marked_are_found_when_the_worker_is_gone(worker: Worker, tmp_path: Path) -> None:
    known = worker(ESCAPE)
    children = [pid for pid in tree(known, tmp_path) if pid != known.pid]
    marked = [pid for pid in children if f"{MARK}={mark(known)}".encode() in Path(f"/proc/{pid}/environ").read_bytes()]
    os.kill(known.pid, 9)
    wait_until(lambda: not is_alive(known), "the worker is dead")
    assert tree(known, tmp_path) == marked
    (orphan,), (unmarked,) = marked, set(children) - set(marked)
    os.kill(unmarked, 9)  # without a mark nothing ends it
    for name in ("rpc.rendezvous", "code.zip.part"):
        (tmp_path / name).touch()
    assert clear(known, Footprint(), tmp_path, tmp_path).left == []
    assert not list(tmp_path.iterdir()), "a killed worker and its ranks removed none of their files"
    assert identity(orphan) is None


def test_another_start_with_the_same_pid_has_no_tree(worker: Worker, tmp_path: Path) -> None:
    known = worker("pass")
    earlier = ProcessIdentity(known.boot_id, known.pid, known.started_ticks - 100)
    before = ProcessIdentity("the boot before", known.pid, known.started_ticks)
    assert (tree(earlier, tmp_path), tree(before, tmp_path)) == ([], [])
    assert (end_tree(earlier, tmp_path), end_tree(before, tmp_path)) == ([], [])
    assert is_alive(known)


def test_shared_memory_and_sockets_that_nobody_holds_are_removed(worker: Worker, tmp_path: Path) -> None:
    bell, listener = tmp_path / "bell", tmp_path / "pymp-test" / "listener-1"
    listener.parent.mkdir()
    known = worker(f"""
import mmap, socket
from multiprocessing import resource_tracker
from multiprocessing.shared_memory import SharedMemory
resource_tracker.register = lambda *_: None
memory = SharedMemory(create=True, size=4096)
doors = [socket.socket(socket.AF_UNIX) for _ in range(2)]
for door, path in zip(doors, ({str(bell)!r}, {str(listener)!r})): door.bind(path); door.listen()
""")
    seen = look(known, tmp_path)
    segment = next(path for path in seen.paths if path.name.startswith("psm_"))
    assert seen.pids == {known.pid}
    assert {bell, listener} <= seen.paths
    os.kill(known.pid, 9)
    wait_until(lambda: not is_alive(known), "the worker is dead")
    cleared = clear(known, seen, tmp_path, tmp_path)
    assert cleared.left == []
    assert sorted(cleared.removed) == sorted([f"shared memory {segment.name}", f"socket {bell}", f"socket {listener}"])
    assert not any(path.exists() for path in (segment, bell, listener.parent))


def test_shared_memory_that_another_process_maps_is_left_alone(worker: Worker, tmp_path: Path) -> None:
    segment = Path("/dev/shm") / f"psm_parallab_{os.getpid()}"
    segment.write_bytes(bytes(4096))
    maps = f"import mmap; file = open({str(segment)!r}, 'r+b'); held = mmap.mmap(file.fileno(), 4096)"
    try:
        ours, other = worker(maps), worker(maps)
        seen = look(ours, tmp_path)
        assert seen.paths == {segment}
        assert clear(ours, seen, tmp_path, tmp_path).removed == []
        assert segment.exists()
        assert is_alive(other)
        end_tree(other, tmp_path)
        assert clear(ours, seen, tmp_path, tmp_path).removed == [f"shared memory {segment.name}"]
    finally:
        segment.unlink(missing_ok=True)


def test_what_torch_made_after_the_last_look_is_known_by_the_pid_in_its_name(worker: Worker, tmp_path: Path) -> None:
    known = worker("pass")
    seen = look(known, tmp_path)
    end_tree(known, tmp_path)
    made, foreign = (Path("/dev/shm") / f"torch_{pid}_123_0" for pid in (known.pid, 1_000_000_001))
    try:
        for path in (made, foreign):
            path.write_bytes(bytes(64))
        assert clear(known, seen, tmp_path, tmp_path).removed == [f"shared memory {made.name}"]
        assert foreign.exists()
    finally:
        made.unlink(missing_ok=True)
        foreign.unlink(missing_ok=True)


def test_a_socket_of_a_program_that_took_the_path_is_left_alone(worker: Worker, tmp_path: Path) -> None:
    known = worker("pass")
    end_tree(known, tmp_path)
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(tmp_path / "bell"))
        door.listen()
        assert clear(known, Footprint(frozenset(), frozenset({tmp_path / "bell"})), tmp_path, tmp_path).removed == []
    assert clear(known, Footprint(), tmp_path, tmp_path).removed == [f"socket {tmp_path / 'bell'}"]


def test_gpu_memory_is_waited_for_and_said_where_it_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.system.cleanup.GPU_S", 60.0)
    answers = [{0: {41: 512.0}}, {0: {41: 512.0}}, {}]
    assert _gpu_memory_left([41], lambda pids: answers.pop(0)) == []
    monkeypatch.setattr("engine.system.cleanup.GPU_S", 0.2)
    assert _gpu_memory_left([41], lambda pids: {1: {41: 2048.0}}) == ["2,048 MB on GPU 1 of process 41"]
