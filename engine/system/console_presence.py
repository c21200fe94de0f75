"""Whether a console serves a home: each holds a shared lock on a file in it, which ends with the process."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

from engine.home import Home


@contextmanager
def console_presence(home: Home) -> Iterator[None]:
    """Mark the home as served for the block."""
    with home.create().console_lock.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        yield


def has_console(home: Home) -> bool:
    """Return whether a console serves the home."""
    if not home.console_lock.exists():
        return False
    with home.console_lock.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            return isinstance(error, BlockingIOError)  # else the file system has no locks
    return False
