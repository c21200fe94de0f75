"""Logs with a bound: a long one keeps its beginning and its end. Torch-free.

Who writes a log knows nothing of that and never waits: ranks append to their files, and what lies between beginning and
end is given back to the disk underneath them (a hole in the file, so that no byte behind it moves). Once a run has
ended its logs are written anew without holes. In both states readers meet one line where something is missing.
"""

import ctypes
import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

HEAD_BYTES, TAIL_BYTES = 4 << 20, 12 << 20
SLACK_BYTES = 4 << 20
"""How much longer a log may be before something is dropped again."""
CHUNK = 256 * 1024
_BLOCK = 4096
_KEEP_SIZE, _PUNCH_HOLE = 1, 2
_DROPPED = re.compile(rb"\n\[([\d,]+) bytes were dropped here[^\n]*\]\n")


@dataclass(frozen=True)
class Piece:
    """Bytes of a log from `start` on; `dropped` says how many are missing right before them."""

    start: int
    data: bytes
    dropped: int = 0

    @property
    def end(self) -> int:
        """Where the next piece begins."""
        return self.start + len(self.data)

    @property
    def text(self) -> bytes:
        """The bytes as a reader meets them."""
        return (dropped_line(self.dropped) if self.dropped else b"") + self.data.replace(b"\0", b"")


def dropped_line(count: int) -> bytes:
    """Return the line that stands where so many bytes are missing."""
    return (
        f"\n[{count:,} bytes were dropped here: a log keeps its first {HEAD_BYTES >> 20} MB and its last "
        f"{TAIL_BYTES >> 20} MB]\n"
    ).encode()


def pieces(path: Path, offset: int = 0, most: int = CHUNK) -> Iterator[Piece]:
    """Yield what is there of a log from a byte offset to its present end; nothing where there is no such file."""
    with suppress(FileNotFoundError), path.open("rb", buffering=0) as file:
        while (found := _piece(file.fileno(), offset, most)).data:
            yield found
            offset = found.end


def piece(path: Path, offset: int, most: int = CHUNK) -> Piece:
    """Return the first piece from a byte offset on; empty at the end of the log."""
    return next(pieces(path, offset, most), Piece(offset, b""))


def size_on_disk(size: int, blocks: int) -> int:
    """Return what a file takes on the disk, from its size and its blocks of 512 bytes: less than its size where it has
    holes.
    """
    return min(size, blocks * 512)


def has_hole(path: Path) -> bool:
    """Say whether something is missing within a log."""
    about = path.stat()
    return size_on_disk(about.st_size, about.st_blocks) < about.st_size


def offset_now(path: Path, offset: int) -> int:
    """Return where a byte offset lies that was read before the log was written anew without its hole."""
    with path.open("rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        if offset <= size or (found := _DROPPED.match(os.pread(file.fileno(), 300, HEAD_BYTES))) is None:
            return min(offset, size)
        return max(0, min(offset - int(found[1].replace(b",", b"")) + len(found[0]), size))


def trim(path: Path) -> None:
    """Give the middle of a long log back to the disk, while it is written to or not."""
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
    """Drop all but the beginning of a log: what is left to do where a file can have no holes."""
    with path.open("r+b") as file:
        before = _DROPPED.match(os.pread(file.fileno(), 300, HEAD_BYTES))
        gone = os.fstat(file.fileno()).st_size - HEAD_BYTES
        if before:
            gone += int(before[1].replace(b",", b"")) - len(before[0])
        file.truncate(HEAD_BYTES)
    with path.open("ab") as file:  # whoever else appends does so before or after this line, not into it
        file.write(dropped_line(gone))


def close_up(path: Path) -> None:
    """Write a long log anew without its hole, once nobody writes to it any more."""
    about = path.stat()
    if about.st_size <= HEAD_BYTES + TAIL_BYTES + SLACK_BYTES:
        return
    begin = about.st_size - TAIL_BYTES
    aside = path.with_suffix(".part")
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
    """Return the first stretch from an offset on that is no hole; an empty one at the end."""
    size = os.fstat(descriptor).st_size
    if offset >= size:
        return offset, offset
    try:
        start = os.lseek(descriptor, offset, os.SEEK_DATA)
        return start, os.lseek(descriptor, start, os.SEEK_HOLE)
    except (AttributeError, OSError):  # a system, or a file system, that knows no holes
        return offset, size


def _punch(path: Path, begin: int, end: int) -> bool:
    """Give a stretch of a file back to the disk, its size unchanged; False where the system can't."""
    if not sys.platform.startswith("linux"):
        return False
    allocate = ctypes.CDLL(None, use_errno=True).fallocate
    allocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    with path.open("r+b") as file:
        return bool(allocate(file.fileno(), _KEEP_SIZE | _PUNCH_HOLE, begin, end - begin) == 0)
