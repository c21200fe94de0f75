"""Files of a run's folder: opened without following a link, and those that are useless after its end. Torch-free."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

LOCK_SUFFIX = ".lock"
RENDEZVOUS_SUFFIX = ".rendezvous"
FORMER = ("rendezvous", "lines", "ring", "group")
"""Previous names of rendezvous files, in the folders of old runs."""


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


def is_meeting_file(path: Path) -> bool:
    """Return whether a file of a run's folder is one of these, by its name."""
    return path.suffix in (LOCK_SUFFIX, RENDEZVOUS_SUFFIX) or path.name in FORMER


def remove_meeting_files(folder: Path) -> None:
    """Remove these files of a run whose processes have all ended."""
    with suppress(OSError):
        for path in folder.iterdir():
            if is_meeting_file(path):
                with suppress(OSError):
                    path.unlink()
