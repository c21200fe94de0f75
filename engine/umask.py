"""The umask of our processes: what they make is their owner's alone. Exports and data sets, which are for others too,
keep the umask that the user gave.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PRIVATE = 0o077
"""No bit for group or others."""
GIVEN = os.umask(PRIVATE)
"""The umask that this process was started with; children of ours get it, and set their own."""
os.umask(GIVEN)


def set_private() -> None:
    """Make every file and folder that this process makes from now on its owner's alone."""
    os.umask(PRIVATE)


@contextmanager
def private() -> Iterator[None]:
    """Make what is made within the block its owner's alone. The umask is the whole process's: not for one thread of
    several.
    """
    with _umask(PRIVATE):
        yield


@contextmanager
def given() -> Iterator[None]:
    """Make what is made within the block as the user's own umask has it. The umask is the whole process's: not for one
    thread of several.
    """
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
    """Make an empty file that only its owner can read, where there is none; what can't be made is left to whoever opens
    it next.
    """
    with suppress(OSError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


def set_mode(path: Path, mask: int) -> None:
    """Give a file or folder the mode that it would have got under that umask."""
    path.chmod((0o777 if path.is_dir() else 0o666) & ~mask)


def make_folder(path: Path, mask: int) -> None:
    """Make a folder and those above it, where they are missing, as under that umask."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in missing:
        set_mode(folder, mask)
