"""The sources of this Python's standard library as text to train on: which files, their split, their checksum.
Torch-free.
"""

import sysconfig
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from engine.errors import DataError

WINDOW = 128
"""Bytes of a sample; the targets are the bytes that follow each of them."""
BYTES = 256
"""Values of a byte: the classes of a prediction."""
TESTED = 8
"""One of so many files is for tests."""
LEFT_OUT = {"site-packages", "dist-packages", "lib-dynload", "test", "tests", "idle_test"}
"""Folders of other packages and of tests, which not every installation has."""
BUILT = ("_sysconfigdata", "config-")
"""Begins of the names of files and folders that were written when Python was built."""


class Text(NamedTuple):
    """The text of some files, and where it is from."""

    train: bytes
    test: bytes
    files: int

    @property
    def in_words(self) -> str:
        """Size and checksum, the same only for the same text and split."""
        digest = sha256(sha256(self.train).digest() + sha256(self.test).digest()).hexdigest()
        return f"{len(self.train) + len(self.test)} bytes of {self.files} files, SHA-256 {digest}"


def standard_library() -> Text:
    """Return the text of this Python's own standard library."""
    return text_of(Path(sysconfig.get_path("stdlib")))


@cache
def text_of(folder: Path) -> Text:
    """Return the text of a folder's Python files, in the order of their paths, each file whole in one part.

    A file's part depends only on its path, so that it is the same in each version of Python.
    """
    parts: tuple[list[bytes], list[bytes]] = ([], [])
    for name in sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.py")):
        if not LEFT_OUT & {*name.split("/")} and not name.startswith(BUILT):
            parts[crc32(name.encode()) % TESTED == 0].append((folder / name).read_bytes())
    train, test = parts
    return Text(b"".join(train), b"".join(test), len(train) + len(test))


def checked(title: str, text: bytes, windows: int) -> bytes:
    """Return a text that has that many windows; raises DataError if it is too short."""
    if len(text) <= windows * WINDOW:
        raise DataError(
            f"{title} needs {windows * WINDOW:,} bytes of Python's standard library, but "
            f"{sysconfig.get_path('stdlib')} has only {len(text):,} bytes of sources for that part. Install Python "
            "with its sources (.py files), or choose another dataset."
        )
    return text
