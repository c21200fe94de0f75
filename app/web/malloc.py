"""glibc malloc settings that limit the console's memory. Each page script runs in a new thread, and glibc gives threads
up to eight heaps per core; free memory of one heap is not available to another. Python runs one thread at a time, so
few heaps are as fast.

Free memory within a heap is fragmented, and glibc returns only its end to the system automatically.
"""

import asyncio
import ctypes
from contextlib import suppress

from starlette.concurrency import run_in_threadpool

M_ARENA_MAX = -8
"""The mallopt parameter, from malloc.h."""
HEAPS = 2
GIVE_BACK_S = 60.0


def share_heaps() -> None:
    """Make all threads that start from now on share `HEAPS` heaps; no effect on other C libraries."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, HEAPS)


def give_back() -> None:
    """Return all free whole pages of the heaps to the system; no effect on other C libraries."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(ctypes.c_size_t(0))


async def keep_small() -> None:
    """Return free memory every `GIVE_BACK_S`, until cancelled."""
    while True:
        await asyncio.sleep(GIVE_BACK_S)
        await run_in_threadpool(give_back)
