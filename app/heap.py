"""How the C library keeps the console's memory. Each script of a page runs in a new thread, and glibc gives threads up to eight heaps a core to
allocate from side by side; what one of them holds free serves no other. Python runs one thread at a time, so few heaps are as fast.
"""

import ctypes
from contextlib import suppress

M_ARENA_MAX = -8
"""mallopt's number for it, in malloc.h."""
HEAPS = 2


def share_heaps() -> None:
    """Have all threads that begin from now on share `HEAPS` heaps; a C library that has no such thing is left as it is."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, HEAPS)
