"""Liveness of processes in other PID namespaces, by a lock that each holds until its end. Torch-free.

Its pid is meaningless here, and /proc does not show it. The kernel releases the lock at its end, in any namespace.
"""

import fcntl
import hashlib
import os

from engine.home import Home
from engine.store.records import ProcessIdentity
from engine.system.processes import is_alive, is_foreign, me

_held: dict[Home, int] = {}
"""Descriptors of this process's locks: closing any descriptor of that file would release them."""


def announce(home: Home) -> None:
    """Take this process's lock until its end. Call before a run begins or a runner registers."""
    if home not in _held:
        _held[home] = os.open(home.presence_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.lockf(_held[home], fcntl.LOCK_EX, 1, _place(me()))


def lives(home: Home, process: ProcessIdentity) -> bool:
    """Return whether that process, a worker or runner of `home`, lives, in any PID namespace."""
    return _holds_its_lock(home, process) if is_foreign(process) else is_alive(process)


def _holds_its_lock(home: Home, process: ProcessIdentity) -> bool:
    try:
        descriptor = _held[home] if home in _held else os.open(home.presence_lock, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:  # the home is not writable, so the lock can't be tested: assume alive
        return True
    place = _place(process)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
        fcntl.lockf(descriptor, fcntl.LOCK_UN, 1, place)
    except (BlockingIOError, PermissionError):
        return True
    finally:
        if home not in _held:
            os.close(descriptor)
    return False


def _place(process: ProcessIdentity) -> int:
    """Return the byte that the process locks: far beyond the file's end, where nothing is ever written."""
    words = f"{process.boot_id} {process.pid_namespace} {process.pid} {process.started_ticks}"
    return int.from_bytes(hashlib.sha256(words.encode()).digest()[:7])
