"""Clean up a run's resources on the machine: processes, shared memory, sockets and GPU memory. Torch-free.

Only resources known to be the run's are touched: processes of its worker's session or with its mark, and their files.
"""

import os
import re
import signal
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from engine.store.records import ProcessIdentity
from engine.system.machine import gpu_memory_of
from engine.system.processes import (
    boot_id,
    identity,
    is_foreign,
    is_of_other_home,
    mark,
    mark_of,
    session_members,
)
from engine.system.run_files import is_scrap, remove_files

KILL_S = 10.0
"""Time for processes to exit after SIGKILL, which takes a moment on a busy machine; a process blocked in a system call
can survive it.
"""
GPU_S = 3.0
"""Time for the driver to free the memory of ended processes."""


@dataclass(frozen=True)
class Footprint:
    """Known resources of a run: process ids, and paths of shared memory and sockets."""

    pids: frozenset[int] = frozenset()
    paths: frozenset[Path] = frozenset()

    def __or__(self, other: "Footprint") -> "Footprint":
        return Footprint(self.pids | other.pids, self.paths | other.paths)


@dataclass
class Cleared:
    """Outcome of a cleanup: remaining and removed resources, as text."""

    left: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)


def tree(worker: ProcessIdentity, home: Path) -> list[int]:
    """Return the pids of a worker's processes: its session, processes with its mark, and the children of both.

    Empty after a reboot, from another PID namespace, and for the worker of another home.
    """
    if worker.boot_id != boot_id() or is_foreign(worker):
        return []
    found = set(session_members(worker))
    wanted = mark(worker)
    parents: dict[int, int] = {}
    for pid in psutil.pids():
        if pid not in found and mark_of(pid) == wanted:
            found.add(pid)
        parents[pid] = _parent(pid)
    grown = True
    while grown:
        children = {pid for pid, parent in parents.items() if parent in found} - found
        found |= children
        grown = bool(children)
    return sorted(pid for pid in found - {os.getpid()} if identity(pid) is not None and not is_of_other_home(pid, home))


def end_tree(worker: ProcessIdentity, home: Path, kill_s: float = KILL_S) -> list[int]:
    """Kill all processes of a worker, including new forks; return the pids that remain after `kill_s`."""
    deadline: float | None = None
    while left := tree(worker, home):
        if deadline is not None and time.monotonic() > deadline:
            return left
        for pid in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        deadline = deadline or time.monotonic() + kill_s  # from the first kill on
        time.sleep(0.02)
    return []


def look(worker: ProcessIdentity, home: Path) -> Footprint:
    """Return the current resources of the worker's run."""
    pids = tree(worker, home)
    bound = _bound_sockets()
    return Footprint(
        frozenset(pids), frozenset(path for pid in pids for path in (*mapped_by(pid), *_sockets(pid, bound)))
    )


def clear(worker: ProcessIdentity, seen: Footprint, folder: Path, home: Path) -> Cleared:
    """Kill a run's remaining processes, remove its files, and return what remains; `folder` is the run's folder.

    An ended run of another PID namespace has no processes left, and its pids are meaningless here: only its folder is
    cleaned. So it is for a worker of another home, whose processes and memory are that home's.
    """
    if is_foreign(worker) or is_of_other_home(worker.pid, home):
        seen = Footprint()
    outlived = end_tree(worker, home)
    cleared = Cleared([f"process {pid} ({_name(pid)})" for pid in outlived])
    if not outlived:  # remaining processes may still need them
        remove_files(folder, is_scrap)
        _remove(_orphans(seen, folder), cleared)
    gone = {pid for pid in seen.pids | {worker.pid} if pid in outlived or identity(pid) is None}  # excludes reused pids
    if worker.boot_id == boot_id() and not is_foreign(worker):
        cleared.left += _gpu_memory_left(gone)
    return cleared


def _orphans(seen: Footprint, folder: Path) -> list[Path]:
    """Return the run's segments and sockets that no process holds any more."""
    made = made_by(seen.pids)  # since the last check
    there = [
        path for path in {*seen.paths, *made, *(path for path in _listed(folder) if path.is_socket())} if path.exists()
    ]
    if not there:
        return []
    in_use = held() | set(_bound_sockets().values())
    return sorted(path for path in there if path not in in_use)


def _remove(paths: Iterable[Path], cleared: Cleared) -> None:
    for path in paths:
        words = f"socket {path}" if path.is_socket() else f"shared memory {path.name}"
        try:
            path.unlink()
        except FileNotFoundError:
            continue
        except OSError as error:
            cleared.left.append(f"{words} ({error.strerror})")
            continue
        cleared.removed.append(words)
        if path.parent.name.startswith("pymp-"):  # multiprocessing creates this folder for that one socket
            with suppress(OSError):
                path.parent.rmdir()


def _gpu_memory_left(
    pids: Collection[int], held: Callable[[Collection[int]], dict[int, dict[int, float]]] | None = None
) -> list[str]:
    ask = held or gpu_memory_of
    deadline = time.monotonic() + GPU_S
    while (found := ask(pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return [
        f"{memory:,.0f} MB on GPU {gpu} of process {pid}" for gpu, own in found.items() for pid, memory in own.items()
    ]


def _sockets(pid: int, bound: dict[str, Path]) -> set[Path]:
    """Return the paths of a process's listening sockets."""
    return {bound[name] for name in open_by(pid) if name in bound}


def _bound_sockets() -> dict[str, Path]:
    """Return this machine's sockets with a path, by their link text in /proc/PID/fd."""
    try:
        rows = [line.split(maxsplit=7) for line in Path("/proc/net/unix").read_text(errors="replace").splitlines()[1:]]
    except OSError:
        return {}
    return {
        f"socket:[{row[6]}]": Path(row[7])
        for row in rows
        if len(row) == 8 and row[7].startswith("/") and not row[7].startswith("/proc/")
    }


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return 0


def _name(pid: int) -> str:
    try:
        return psutil.Process(pid).name()
    except psutil.Error:
        return "already gone"


# ---- Shared memory segments: the processes that use them, and the creator in torch's names -------------------------
# Torch-free.

SHARED = Path("/dev/shm")
SHARED_PREFIXES = ("torch_", "psm_")
"""Names of segments of torch and multiprocessing; others belong to other programs."""
_OF_TORCH = re.compile(r"torch_(\d+)_")


def maker_of(path: Path) -> int | None:
    """Return the pid in torch's segment name, None for other names."""
    found = _OF_TORCH.match(path.name)
    return int(found[1]) if found else None


def mapped_by(pid: int, folder: Path = SHARED) -> set[Path]:
    """Return the named segments that a process maps."""
    try:
        lines = Path(f"/proc/{pid}/maps").read_text(errors="surrogateescape").splitlines()
    except OSError:
        return set()
    names = (line.partition("/")[2] for line in lines if f" {folder}/" in line and not line.endswith(" (deleted)"))
    return {
        path for name in names if (path := Path("/" + name)).parent == folder and path.name.startswith(SHARED_PREFIXES)
    }


def held(folder: Path = SHARED) -> set[Path]:
    """Return the segments that any visible process has mapped or open."""
    return {path for pid in psutil.pids() for path in (*mapped_by(pid, folder), *(Path(name) for name in open_by(pid)))}


def open_by(pid: int) -> Iterator[str]:
    """Yield a process's open files, from the links in /proc/PID/fd: a path, or text such as `socket:[77]`."""
    with suppress(OSError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                yield str(descriptor.readlink())


def made_by(pids: frozenset[int]) -> list[Path]:
    """Return torch's segments created by these processes."""
    try:
        return [path for name in os.listdir(SHARED) if maker_of(path := SHARED / name) in pids]  # noqa: PTH208 names alone are needed
    except OSError:
        return []
