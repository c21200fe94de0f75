"""Semaphores between the ranks of a run: each release wakes one waiter, now or later.

A semaphore is a pipe that holds one byte per release. Unlike a lock or a named semaphore it has no owner and no name:
killed processes leave nothing behind, and it wakes threads as well as processes.
"""

import os
import select
import time
from multiprocessing import Pipe


class Semaphore:
    """A counting semaphore; passed to the ranks as an argument of `Ranks.run`. It holds up to about 60,000 releases."""

    def __init__(self) -> None:
        self._read_end, self._write_end = Pipe(duplex=False)
        os.set_blocking(self._read_end.fileno(), False)

    def release(self, times: int = 1) -> None:
        """Wake `times` waiters, now or later."""
        os.write(self._write_end.fileno(), b"\0" * times)

    def acquire(self, timeout_s: float) -> bool:
        """Wait for a release, and consume it; return False on a timeout."""
        descriptor, deadline = self._read_end.fileno(), time.monotonic() + timeout_s
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        while poll.poll(max(0.0, 1000 * (deadline - time.monotonic()))):
            try:
                return bool(os.read(descriptor, 1))
            except BlockingIOError:  # another waiter was faster
                continue
        return False
