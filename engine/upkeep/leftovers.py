"""What ended processes may leave outside the store: folders, half-written files, sockets, locks, shared memory. Only what is surely ours."""

import os
import stat
import time
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path

import psutil
from filelock import FileLock, Timeout

from engine.home import Home
from engine.runtime.processes import boot_id
from engine.store import Reader
from engine.store.checks import rank_pids
from engine.upkeep.backups import LOCK, PART, SUM

SHARED_MEMORY = Path("/dev/shm")
SLACK_S = 5.0
"""What clocks of files and of the store may differ by."""
RECENT_S = 60.0
"""Nothing that was touched so lately counts as left over."""


def orphan_folders(home: Home, known: Iterable[int]) -> list[Path]:
    """Return the folders of runs that the store does not know."""
    ids = set(known)
    return sorted((path for path in _run_folders(home) if int(path.name) not in ids and _is_old(path)), key=lambda path: int(path.name))


def scraps(home: Home, ended: Iterable[int]) -> list[Path]:
    """Return half-written checkpoints, sockets and locks in the folders of ended runs, and half-written stores and backups."""
    found = [path for run_id in ended for path in _files(home.run_folder(run_id)) if path.suffix in (PART, ".lock") or stat.S_ISSOCK(path.lstat().st_mode)]
    found += [path for path in home.path.glob(f"*{PART}") if _is_old(path)]
    return sorted(found + _unfinished_backups(home))


def segments(reader: Reader, folder: Path = SHARED_MEMORY) -> list[Path]:
    """Return torch's files in shared memory that a process of a run of this store made, which is gone, and that nobody maps.

    A file is ours where it is named after a pid that the store names for a run of this boot, belongs to this user, and was made while that
    run was on; a pid that any process has now is left alone.
    """
    spans: dict[int, list[tuple[float, float]]] = {}
    for boot, pid, begun_at, ended_at in rank_pids(reader):
        if boot == boot_id() and begun_at:
            spans.setdefault(pid, []).append((_moment(begun_at) - SLACK_S, (_moment(ended_at) if ended_at else time.time()) + SLACK_S))
    found = []
    for path in folder.glob("torch_*"):
        pid = path.name.split("_")[1]
        if not pid.isdecimal() or int(pid) not in spans or psutil.pid_exists(int(pid)):
            continue
        about = path.lstat()
        ours = stat.S_ISREG(about.st_mode) and about.st_uid == os.getuid() and any(low <= about.st_mtime <= high for low, high in spans[int(pid)])
        if ours:
            found.append(path)
    mapped = _mapped(folder) if found else set()
    return sorted(path for path in found if str(path) not in mapped)


def _mapped(folder: Path) -> set[str]:
    """Return the files of shared memory that any process of this user has mapped or open."""
    found: set[str] = set()
    for process in psutil.process_iter():
        try:
            found |= {each.path for each in process.memory_maps() if each.path.startswith(str(folder))}
            found |= {each.path for each in process.open_files() if each.path.startswith(str(folder))}
        except (psutil.Error, OSError):
            continue
    return found


def _unfinished_backups(home: Home) -> list[Path]:
    """Return half-written backups and checksums without one; none while a backup is being made."""
    if not home.backups.is_dir():
        return []
    try:
        with FileLock(home.backups / LOCK).acquire(timeout=0):
            alone = [path for path in home.backups.glob(f"*{SUM}") if not path.with_suffix("").exists()]
            return [*home.backups.glob(f"*{PART}"), *home.backups.glob(f"*{PART}-journal"), *alone]
    except Timeout:
        return []


def _run_folders(home: Home) -> Iterator[Path]:
    return (path for path in (home.path / "runs").glob("*") if path.name.isdecimal() and path.is_dir())


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.glob("*") if not path.is_dir()]


def _is_old(path: Path) -> bool:
    return time.time() - path.lstat().st_mtime > RECENT_S


def _moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
