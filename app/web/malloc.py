"""How the C library keeps the console's memory. Each script of a page runs in a new thread, and glibc gives threads up
to eight heaps a core to allocate from side by side; what one of them holds free serves no other. Python runs one thread
at a time, so few heaps are as fast.

Within a heap, what is free lies between what is kept, and glibc gives none of it back by itself but the end.
"""

import asyncio
import ctypes
from contextlib import suppress

from starlette.concurrency import run_in_threadpool

M_ARENA_MAX = -8
"""mallopt's number for it, in malloc.h."""
HEAPS = 2
GIVE_BACK_S = 60.0


def share_heaps() -> None:
    """Have all threads that begin from now on share `HEAPS` heaps; a C library that has no such thing is
    left as it is.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, HEAPS)


def give_back() -> None:
    """Give the system every whole page that the heaps hold free; a C library that has no such thing is left
    as it is.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(ctypes.c_size_t(0))


async def keep_small() -> None:
    """Give back what is free every `GIVE_BACK_S`, until cancelled."""
    while True:
        await asyncio.sleep(GIVE_BACK_S)
        await run_in_threadpool(give_back)
