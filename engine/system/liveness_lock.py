"""How a process of another PID namespace is known to live: by a lock that it holds for as long as it lives. Torch-free.

Its pid means nothing here, and /proc does not show it. The kernel frees the lock with the process, in whatever
namespace that is.
"""

import fcntl
import hashlib
import os

from engine.home import Home
from engine.store.records import ProcessIdentity
from engine.system.processes import is_alive, is_foreign, me

_held: dict[Home, int] = {}
"""The descriptors that this process's own locks hang on: closing any descriptor of that file would free them."""


def announce(home: Home) -> None:
    """Hold this process's lock from here to its end. Call before a run is begun or a runner registers."""
    if home not in _held:
        _held[home] = os.open(home.presence_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.lockf(_held[home], fcntl.LOCK_EX, 1, _place(me()))


def lives(home: Home, process: ProcessIdentity) -> bool:
    """Say whether that very process, a worker or a runner of `home`, lives, in whatever PID namespace."""
    return _holds_its_lock(home, process) if is_foreign(process) else is_alive(process)


def _holds_its_lock(home: Home, process: ProcessIdentity) -> bool:
    try:
        descriptor = _held[home] if home in _held else os.open(home.presence_lock, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:  # the home can't be written, so the lock can't be tried: what can't be told counts as alive
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
    """Return the byte of the file that the process locks: far behind the file's end, where nothing is ever written."""
    words = f"{process.boot_id} {process.pid_namespace} {process.pid} {process.started_ticks}"
    return int.from_bytes(hashlib.sha256(words.encode()).digest()[:7])
