"""The umask of our processes: new files are private to their owner. Exports and data sets, which may be shared, use the
user's umask.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PRIVATE = 0o077
"""No permissions for group or others."""
GIVEN = os.umask(PRIVATE)
"""The umask at this process's start; child processes get it, and set their own."""
os.umask(GIVEN)


def set_private() -> None:
    """Make new files and folders of this process private to their owner."""
    os.umask(PRIVATE)


@contextmanager
def private() -> Iterator[None]:
    """Make new files within the block private. The umask applies to the whole process: not for multi-threaded use."""
    with _umask(PRIVATE):
        yield


@contextmanager
def given() -> Iterator[None]:
    """Use the user's umask within the block. The umask applies to the whole process: not for multi-threaded use."""
    with _umask(GIVEN):
        yield


@contextmanager
def _umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def make_private(path: Path) -> None:
    """Create an empty private file if missing; errors are left to its next opening."""
    with suppress(OSError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


def set_mode(path: Path, mask: int) -> None:
    """Set the mode that a file or folder would have under that umask."""
    path.chmod((0o777 if path.is_dir() else 0o666) & ~mask)


def make_folder(path: Path, mask: int) -> None:
    """Create a folder and its parents, if missing, with the modes of that umask."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in missing:
        set_mode(folder, mask)
