"""Find leftover files of ended processes: folders, partial files, sockets, locks, shared memory. Read-only.

Leftovers that certainly belong to this home's ended runs are distinguished from similar ones.
"""

import os
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import psutil
from filelock import FileLock, Timeout

from engine.home import Home
from engine.store import ENDED, Reader
from engine.store.curves.ingest import hidden
from engine.store.maintenance.integrity import Stint, stints_of_pids
from engine.store.records import Status
from engine.system.processes import boot_id, is_foreign
from engine.system.run_files import ASIDE, is_meeting_file
from engine.system.shm_segments import held, maker_of
from engine.upkeep.backups import LOCK, PART, SUM
from engine.upkeep.leftover import Leftover

SLACK_S = 5.0
"""Tolerated difference between the clocks of files and of the store."""
RECENT_S = 60.0
"""Folders and partial stores modified more recently are not leftovers."""


def left_folders(home: Home, reader: Reader) -> Iterator[Leftover]:
    """Yield entries of the runs folder without a run in the store; a folder named by a number is ours."""
    found = _listed(home.path / "runs")  # before reading the ids, as a later folder belongs to a new run
    known = {str(run_id) for ids in [reader.runs.statuses(), *hidden(reader.db)] for run_id in ids}
    for path in found:
        if path.name in known or path.name == ASIDE or not _is_old(path):
            continue
        if path.name.isdecimal() and path.is_dir():
            yield Leftover("folder", str(path), "No run of this store uses this folder.", _size_of(path))
        else:
            why = "In the runs folder, but not named like a run."
            yield Leftover("folder" if path.is_dir() else "file", str(path), why, _size_of(path), is_ours=False)


def left_segments(reader: Reader, folder: Path, grace_s: float) -> Iterator[Leftover]:
    """Yield this user's segments of torch whose creator is gone and that no process has mapped or open.

    A segment is ours if its creator belongs to an ended run of this boot in the store, and it was created during that
    run. Segments that may belong to a live run, or to a run in another PID namespace, are not listed.
    """
    found = dict(_abandoned_segments(folder, grace_s))
    if not found:
        return
    stints, in_use = stints_of_pids(reader, boot_id()), held(folder)
    for path, about in found.items():
        maker = maker_of(path)
        of = [stint for stint in stints.get(maker or 0, []) if _covers(stint, about.st_mtime)]
        if path in in_use or any(stint.ended_at is None or is_foreign(stint.worker) for stint in of):
            continue
        if of:
            why = f"Created by process {maker} of run {of[-1].run_id}, which has ended; not mapped by any process."
            yield Leftover("shared memory", str(path), why, about.st_size, run_id=of[-1].run_id)
        else:
            why = (
                f"Created by process {maker}, which is gone and belonged to no run of this store; not mapped by "
                "any process."
            )
            yield Leftover("shared memory", str(path), why, about.st_size, is_ours=False)


def left_files(home: Home, statuses: Mapping[int, Status]) -> Iterator[Leftover]:
    """Yield partial checkpoints, sockets, locks and rendezvous files in the folders of ended runs, and partial stores
    and backups.
    """
    for folder in _listed(home.path / "runs"):
        run_id = int(folder.name) if folder.name.isdecimal() else 0
        if statuses.get(run_id) in ENDED:
            yield from (
                _file(path, f"In the folder of run {run_id}, which has ended.", run_id)
                for path in _listed(folder)
                if _is_scrap(path)
            )
    yield from (_file(path, "Partially written store.") for path in sorted(home.path.glob(f"*{PART}")) if _is_old(path))
    yield from (_file(path, "Partially written backup.") for path in _unfinished_backups(home))


def _abandoned_segments(folder: Path, grace_s: float) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield segments of torch older than `grace_s` whose creator is gone, with their file status."""
    for path in _listed(folder):
        pid = maker_of(path)
        if pid is None or psutil.pid_exists(pid):
            continue
        with suppress(OSError):
            about = path.lstat()
            if stat.S_ISREG(about.st_mode) and about.st_uid == os.getuid() and time.time() - about.st_mtime > grace_s:
                yield path, about


def _covers(stint: Stint, moment: float) -> bool:
    begun, ended = (
        datetime.fromisoformat(stint.begun_at).timestamp(),
        datetime.fromisoformat(stint.ended_at).timestamp() if stint.ended_at else time.time(),
    )
    return begun - SLACK_S <= moment <= ended + SLACK_S


def _is_scrap(path: Path) -> bool:
    with suppress(OSError):
        mode = path.lstat().st_mode
        return not stat.S_ISDIR(mode) and (path.suffix == PART or is_meeting_file(path) or stat.S_ISSOCK(mode))
    return False


def _unfinished_backups(home: Home) -> list[Path]:
    """Return partial backups and checksums without a backup; empty while a backup is in progress."""
    if not _half_backups(home):
        return []
    try:
        with FileLock(home.backups / LOCK).acquire(timeout=0):
            return _half_backups(home)
    except Timeout:
        return []


def _half_backups(home: Home) -> list[Path]:
    alone = [path for path in home.backups.glob(f"*{SUM}") if not path.with_suffix("").exists()]
    return sorted([*home.backups.glob(f"*{PART}"), *home.backups.glob(f"*{PART}-journal"), *alone])


def _file(path: Path, why: str, run_id: int | None = None) -> Leftover:
    return Leftover("file", str(path), why, _size_of(path), run_id=run_id)


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(
            folder.iterdir(), key=lambda path: (len(path.name), path.name) if path.name.isdecimal() else (0, path.name)
        )
    except OSError:
        return []


def _is_old(path: Path) -> bool:
    try:
        return time.time() - path.lstat().st_mtime > RECENT_S
    except OSError:
        return False


def _size_of(path: Path) -> int:
    """Return the bytes of a file, or of all files below a folder."""
    size = 0
    with suppress(OSError):
        for each in path.rglob("*") if path.is_dir() else [path]:
            size += 0 if each.is_dir() else each.lstat().st_size
    return size
