"""Files of a run's folder: opened without following a link, those that are useless after its end, and what an unknown
run left there. Torch-free.
"""

import ctypes
import errno
import logging
import os
import re
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from engine.home import Home
from engine.store.timestamps import now

LOCK_SUFFIX = ".lock"
RENDEZVOUS_SUFFIX = ".rendezvous"
PART = ".part"
"""Suffix of a file that is being written."""
FORMER = ("rendezvous", "lines", "ring", "group")
"""Previous names of rendezvous files, in the folders of old runs."""
READ, READER_S = "read", 5.0
"""File whose time is that of the last program that read the run's newest points, and how long that counts."""
ASIDE = "aside"
"""Folder among the run folders for those that were moved aside, where the home's is on another file system."""


@contextmanager
def opened_within(folder: int | Path, name: str) -> Iterator[IO[bytes]]:
    """Open a regular file of a folder (its descriptor or path) for reading; a link or a special file raises
    FileNotFoundError, as if it was not there.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY) if isinstance(folder, Path) else os.dup(folder)
    try:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=descriptor)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENXIO):
            raise
        raise FileNotFoundError(errno.ENOENT, "no regular file", name) from error
    finally:
        os.close(descriptor)
    with os.fdopen(file, "rb") as found:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise FileNotFoundError(errno.ENOENT, "no regular file", name)
        yield found


def note_reader(folder: Path) -> None:
    """Note in a run's folder that somebody reads its newest points, so that its processes pass them on sooner."""
    with suppress(OSError):
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(folder / READ, flags, 0o600)
        try:
            os.utime(descriptor)
        finally:
            os.close(descriptor)


def has_reader(folder: Path) -> bool:
    """Return whether somebody has read a run's newest points in the last `READER_S` seconds."""
    with suppress(OSError):
        return abs(time.time() - os.lstat(folder / READ).st_mtime) < READER_S
    return False


def is_meeting_file(path: Path) -> bool:
    """Return whether a file of a run's folder is one by which its ranks meet, by its name."""
    return path.suffix in (LOCK_SUFFIX, RENDEZVOUS_SUFFIX) or path.name in FORMER


def is_scrap(path: Path) -> bool:
    """Return whether a file of a run's folder is useless once its worker has ended: one of these, or unfinished."""
    return path.suffix == PART or path.name == READ or is_meeting_file(path)


def remove_files(folder: Path, which: Callable[[Path], bool]) -> None:
    """Remove such files of a run whose processes have all ended."""
    with suppress(OSError):
        for path in folder.iterdir():
            if which(path):
                with suppress(OSError):
                    path.unlink()


def aside_of(home: Home) -> Path:
    """Return where run folders are moved aside: in the home, or in `runs/` if that is on another file system."""
    runs = home.run_folder(0).parent
    is_apart = runs.exists() and runs.stat().st_dev != home.path.stat().st_dev
    return runs / ASIDE if is_apart else home.aside


def put_aside(home: Home, folder: Path, occasion: str) -> Path:
    """Move a folder of `runs/` to `aside/<occasion>/` of the home, or of `runs/` if that is on another file system;
    return its new place. Nothing is copied; raises OSError, and nothing has changed.
    """
    for place in (home.aside / occasion, folder.parent / ASIDE / occasion):
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            return folder.rename(place / folder.name)
        except OSError as error:
            with suppress(OSError):
                place.rmdir()
            if error.errno != errno.EXDEV:
                raise
    raise OSError(errno.EXDEV, "is a file system of its own", str(folder))


def vacate(home: Home, run_id: int) -> Path | None:
    """Move aside what another run of this number left in a new run's folder; return its new place, None without
    anything.
    """
    folder = home.run_folder(run_id)
    try:
        if not folder.is_symlink() and not any(folder.iterdir()):
            return None
    except (FileNotFoundError, NotADirectoryError):
        if not folder.is_symlink() and not folder.exists():
            return None
    return put_aside(home, folder, f"found-{now().replace(':', '-')}")


# ---- Logs with a maximum size: long ones keep their start and end. Torch-free --------------------------------------
# Writers are not involved and never wait: ranks append to their files, and the middle is freed underneath them (a hole
# in the file, so that later offsets stay valid). After the run's end, its logs are rewritten without holes. In both
# cases, readers see one line in place of the missing part.

HEAD_BYTES, TAIL_BYTES = 4 << 20, 12 << 20
SLACK_BYTES = 4 << 20
"""Additional size before the next trim."""
CHUNK = 256 * 1024
_BLOCK = 4096
_KEEP_SIZE, _PUNCH_HOLE = 1, 2
_DROPPED = re.compile(rb"\n\[([\d,]+) bytes (?:were )?dropped here[^\n]*\]\n")


@dataclass(frozen=True)
class Piece:
    """Bytes of a log from `start`, with the number of `dropped` bytes right before them."""

    start: int
    data: bytes
    dropped: int = 0

    @property
    def end(self) -> int:
        """Start of the next piece."""
        return self.start + len(self.data)

    @property
    def text(self) -> bytes:
        """The bytes as shown to readers."""
        return (dropped_line(self.dropped) if self.dropped else b"") + self.data.replace(b"\0", b"")


def dropped_line(count: int) -> bytes:
    """Return the line shown in place of missing bytes."""
    return (
        f"\n[{count:,} bytes were dropped here: a log keeps its first {HEAD_BYTES >> 20} MB and its last "
        f"{TAIL_BYTES >> 20} MB]\n"
    ).encode()


def pieces(path: Path, offset: int = 0, most: int = CHUNK) -> Iterator[Piece]:
    """Yield the pieces of a log from a byte offset to its current end; nothing without a file."""
    with suppress(FileNotFoundError), path.open("rb", buffering=0) as file:
        while (found := _piece(file.fileno(), offset, most)).data:
            yield found
            offset = found.end


def piece(path: Path, offset: int, most: int = CHUNK) -> Piece:
    """Return the first piece from a byte offset; empty at the end of the log."""
    return next(pieces(path, offset, most), Piece(offset, b""))


def size_on_disk(size: int, blocks: int) -> int:
    """Return a file's disk usage, from its size and its blocks of 512 bytes: less than its size with holes."""
    return min(size, blocks * 512)


def has_hole(path: Path) -> bool:
    """Return whether a part of a log is missing."""
    about = path.stat()
    return size_on_disk(about.st_size, about.st_blocks) < about.st_size


def offset_now(path: Path, offset: int) -> int:
    """Convert a byte offset from before the log was rewritten without its hole."""
    with path.open("rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        if offset <= size or (found := _DROPPED.match(os.pread(file.fileno(), 300, HEAD_BYTES))) is None:
            return min(offset, size)
        return max(0, min(offset - int(found[1].replace(b",", b"")) + len(found[0]), size))


def tail(path: Path, size: int = 4_000) -> str:
    """Return the end of a log; empty if there is none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - size))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def trim(path: Path) -> None:
    """Free the middle of a long log, even while it is being written."""
    try:
        about = path.stat()
    except FileNotFoundError:
        return
    bound = HEAD_BYTES + TAIL_BYTES + SLACK_BYTES
    if size_on_disk(about.st_size, about.st_blocks) <= bound:
        return
    if not _punch(path, HEAD_BYTES, (about.st_size - TAIL_BYTES) // _BLOCK * _BLOCK):
        cut(path)


def cut(path: Path) -> None:
    """Truncate a log to its start, for file systems without holes."""
    with path.open("r+b") as file:
        before = _DROPPED.match(os.pread(file.fileno(), 300, HEAD_BYTES))
        gone = os.fstat(file.fileno()).st_size - HEAD_BYTES
        if before:
            gone += int(before[1].replace(b",", b"")) - len(before[0])
        file.truncate(HEAD_BYTES)
    with path.open("ab") as file:  # O_APPEND: other writers append before or after this line, not into it
        file.write(dropped_line(gone))


def close_up(path: Path) -> None:
    """Rewrite a long log without its hole, after its writers have ended."""
    about = path.stat()
    if about.st_size <= HEAD_BYTES + TAIL_BYTES + SLACK_BYTES:
        return
    begin = about.st_size - TAIL_BYTES
    aside = path.with_suffix(PART)
    try:
        with path.open("rb") as log, aside.open("wb") as file:
            os.fchmod(file.fileno(), about.st_mode & 0o777)
            file.write(log.read(HEAD_BYTES))
            file.write(dropped_line(begin - HEAD_BYTES))
            for found in pieces(path, begin):
                file.write(found.data)
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def _piece(descriptor: int, offset: int, most: int) -> Piece:
    start, end = _data(descriptor, offset)
    return Piece(start, os.pread(descriptor, min(most, end - start), start), start - offset if end > start else 0)


def _data(descriptor: int, offset: int) -> tuple[int, int]:
    """Return the first data range from an offset; empty at the end."""
    size = os.fstat(descriptor).st_size
    if offset >= size:
        return offset, offset
    try:
        start = os.lseek(descriptor, offset, os.SEEK_DATA)
        return start, os.lseek(descriptor, start, os.SEEK_HOLE)
    except (AttributeError, OSError):  # no support for holes
        return offset, size


def _punch(path: Path, begin: int, end: int) -> bool:
    """Free a range of a file without changing its size; False if unsupported."""
    if not sys.platform.startswith("linux"):
        return False
    allocate = ctypes.CDLL(None, use_errno=True).fallocate
    allocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    with path.open("r+b") as file:
        return bool(allocate(file.fileno(), _KEEP_SIZE | _PUNCH_HOLE, begin, end - begin) == 0)


# ---- Log format of runner and worker: one line per entry, UTC, to standard output, which is a file -----------------
# Torch-free.

FORMAT, MOMENT = "%(asctime)sZ %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%S"


def log_to_stdout() -> None:
    """Configure logging to standard output."""
    formatter = logging.Formatter(FORMAT, datefmt=MOMENT)
    formatter.converter = time.gmtime
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(formatter)
    logging.basicConfig(level=logging.INFO, handlers=[handler])


def moment(at: float | None = None) -> str:
    """Return a time (default: now) as lines of a log begin, in UTC."""
    return time.strftime(MOMENT, time.gmtime(at)) + "Z"


def note_for_runner(home: Home, words: str) -> None:
    """Append a line to the runner's log, from any process; lines are written atomically."""
    line = f"{moment()} INFO {' '.join(words.split())}\n"
    with home.runner_log.open("a", encoding="utf-8") as log:
        log.write(line)
