"""Copies a run's files from the job's folder to the home: logs as they grow, others when replaced. Torch-free."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from engine.home import flush
from engine.system.run_files import is_meeting_file

COMPARED = 1024
"""Bytes before the end of our copy of a log that must be the same in the original, or all of it is copied."""
PART = ".part"


def mirror(source: Path, target: Path) -> None:
    """Bring the copy of a folder up to date. A file that is replaced meanwhile is left for the next time. Links and
    special files are skipped; nothing is deleted.
    """
    for path in _files(source):
        copy = target / path.relative_to(source)
        if path.suffix == ".log":
            _follow(path, copy)
        elif about := _replaced(path, copy):
            _replace(path, copy, about)


def _replace(path: Path, copy: Path, about: os.stat_result) -> None:
    copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = copy.with_name(f"{copy.name}{PART}")
    shutil.copyfile(path, part, follow_symlinks=False)
    os.utime(part, ns=(about.st_atime_ns, about.st_mtime_ns))
    if _is_same(path, about):
        flush(part)
        part.replace(copy)
    else:
        part.unlink()


def _files(folder: Path) -> Iterator[Path]:
    for place, _, names in os.walk(folder):
        for name in sorted(names):
            path = Path(place) / name
            if path.suffix != PART and not is_meeting_file(path) and not path.is_symlink() and path.is_file():
                yield path


def _replaced(path: Path, copy: Path) -> os.stat_result | None:
    """Return the original's state if our copy is another one."""
    about = path.stat(follow_symlinks=False)
    try:
        ours = copy.stat()
    except FileNotFoundError:
        return about
    return None if (ours.st_size, ours.st_mtime_ns) == (about.st_size, about.st_mtime_ns) else about


def _is_same(path: Path, about: os.stat_result) -> bool:
    try:
        found = path.stat(follow_symlinks=False)
    except FileNotFoundError:
        return False
    return (found.st_ino, found.st_size, found.st_mtime_ns) == (about.st_ino, about.st_size, about.st_mtime_ns)


def _follow(path: Path, copy: Path) -> None:
    """Append what a log has more than our copy; copy all of it if it was shortened."""
    copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    copy.touch(mode=0o600)
    have, size = copy.stat().st_size, path.stat().st_size
    if size == have:
        return
    with path.open("rb") as original, copy.open("r+b") as ours:
        begin = max(0, have - COMPARED)
        original.seek(begin)
        ours.seek(begin)
        if size < have or original.read(have - begin) != ours.read(have - begin):
            original.seek(0)
            ours.seek(0)
            ours.truncate()
        shutil.copyfileobj(original, ours)
