"""Bells between the ranks of a run: each ring wakes one of those who wait, now or later.

A bell is a pipe that holds one byte a ring. Unlike a lock or a named semaphore it has no owner and no name: nothing
stays behind whoever is killed, and it wakes threads as well as processes.
"""

import os
import select
import time
from multiprocessing import Pipe


class Bell:
    """A counting semaphore; travels to the ranks as an argument of `Ranks.run`. It holds up to some 60,000 rings."""

    def __init__(self) -> None:
        self._hear, self._ring = Pipe(duplex=False)
        os.set_blocking(self._hear.fileno(), False)

    def ring(self, times: int = 1) -> None:
        """Wake so many of those who wait or will."""
        os.write(self._ring.fileno(), b"\0" * times)

    def heard(self, timeout_s: float) -> bool:
        """Wait for a ring, which nobody else hears then; return False where none came in time."""
        descriptor, deadline = self._hear.fileno(), time.monotonic() + timeout_s
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        while poll.poll(max(0.0, 1000 * (deadline - time.monotonic()))):
            try:
                return bool(os.read(descriptor, 1))
            except BlockingIOError:  # another was faster
                continue
        return False
