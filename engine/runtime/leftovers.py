"""What belongs to no live run any more: processes, folders of runs, shared memory. It only looks; ending or deleting is for people. Torch-free."""

import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

from engine.home import Home
from engine.runtime.processes import boot_id, identity, is_alive
from engine.store import Reader
from engine.store.clock import seconds_since

SHARED_MEMORY = Path("/dev/shm")
GRACE_S = 10.0
"""What is younger, or belongs to a run that ended less long ago, may be on its way in or out."""
_OF_TORCH = re.compile(r"torch_(\d+)_")


@dataclass(frozen=True)
class Leftover:
    """One thing that is left over."""

    kind: Literal["process", "folder", "shared memory"]
    name: str
    """The pid, or the path."""
    why: str
    """What it was for, and why nothing needs it, in a sentence."""
    size_bytes: int | None = None


def leftovers(home: Home, reader: Reader, shared_memory: Path = SHARED_MEMORY) -> list[Leftover]:
    """Return what is left over of this home's runs, and segments of shared memory whose maker is gone."""
    return [*_processes(home, reader), *_folders(home, reader), *_segments(shared_memory)]


def _processes(home: Home, reader: Reader) -> Iterator[Leftover]:
    """Yield processes in the session of a worker whose run has ended, and workers that wait for a runner that is gone."""
    sessions = _sessions()
    taken = {worker.pid: (run_id, ended_at, worker) for run_id, ended_at, worker in reader.workers(boot_id(), sessions)}
    for leader, (run_id, ended_at, worker) in taken.items():
        now = identity(leader)
        if ended_at is None or seconds_since(ended_at) < GRACE_S or (now is not None and now != worker):
            continue
        for pid in sessions[leader]:
            yield Leftover("process", str(pid), f"Started for run {run_id}, which has ended: {_command(pid)}", _memory_of(pid))
    runner = reader.runner()
    serving = runner.process.pid if runner and is_alive(runner.process) else None
    for pid, parent in _workers_of(home):
        if pid not in taken and parent != serving:
            yield Leftover("process", str(pid), "A worker that has no run, and whose runner is gone.", _memory_of(pid))


def _folders(home: Home, reader: Reader) -> Iterator[Leftover]:
    """Yield what lies among the runs' folders and is no run's of this store."""
    folder = home.path / "runs"
    names = sorted(os.listdir(folder)) if folder.is_dir() else []  # noqa: PTH208 before the ids are read: a folder made later belongs to a run queued before
    known = {str(run_id) for run_id in reader.run_ids()}
    for name in names:
        if name not in known:
            yield Leftover("folder", str(folder / name), "No run of this store has this folder.", _size_of(folder / name))


def _segments(folder: Path) -> Iterator[Leftover]:
    """Yield this user's segments of torch whose maker is gone, and which no process has mapped."""
    found = {}
    for path in sorted(folder.glob("torch_*")) if folder.is_dir() else []:
        with suppress(OSError):
            seen, maker = path.stat(), _OF_TORCH.match(path.name)
            if maker and seen.st_uid == os.getuid() and time.time() - seen.st_mtime > GRACE_S and identity(int(maker[1])) is None:
                found[path] = (maker[1], seen.st_size)
    mapped = _mapped() if found else ""
    for path, (maker_pid, size) in found.items():
        if str(path) not in mapped:
            yield Leftover("shared memory", str(path), f"Made by process {maker_pid}, which is gone; no process has it mapped.", size)


def _sessions() -> dict[int, list[int]]:
    """Return the pids of every session of this machine by its leader's pid."""
    found: dict[int, list[int]] = {}
    for pid in psutil.pids():
        with suppress(OSError):
            found.setdefault(os.getsid(pid), []).append(pid)
    return {leader: [pid for pid in pids if identity(pid)] for leader, pids in found.items()}


def _workers_of(home: Home) -> Iterator[tuple[int, int]]:
    """Yield pid and parent of each process that was started as a worker of this home, those of the last seconds left out."""
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            words = process.cmdline()
            is_worker = "engine.worker" in words and "--home" in words and words[words.index("--home") + 1 :][:1] == [str(home.path)]
            if is_worker and time.time() - process.create_time() > GRACE_S and os.getsid(process.pid) == process.pid:
                yield process.pid, process.ppid()


def _command(pid: int) -> str:
    try:
        return " ".join(psutil.Process(pid).cmdline())[:120] or "a kernel thread."
    except psutil.Error:
        return "it has just ended."


def _memory_of(pid: int) -> int | None:
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return None


def _size_of(path: Path) -> int:
    """Return the bytes of a file, or of all files below a folder."""
    size = 0
    with suppress(OSError):
        for each in path.rglob("*") if path.is_dir() else [path]:
            size += 0 if each.is_dir() else each.lstat().st_size
    return size


def _mapped() -> str:
    """Return the memory maps of every process of this user as one text."""
    texts = []
    for pid in psutil.pids():
        with suppress(OSError):
            texts.append(Path(f"/proc/{pid}/maps").read_text(errors="replace"))
    return "\n".join(texts)
