"""Runs what blocks beside an event loop, in a thread that keeps no process from ending."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


async def apart(act: Callable[[], T]) -> T:
    """Return what a call gives, or raise what it raises. Who stops waiting for it leaves it to end by itself."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(result: Callable[[], None]) -> None:
        if not done.done():
            result()

    def run() -> None:
        try:
            found = act()
        except Exception as error:
            told = error
            outcome: Callable[[], None] = lambda: done.set_exception(told)  # noqa: E731
        else:
            outcome = lambda: done.set_result(found)  # noqa: E731
        with suppress(RuntimeError):  # nobody waits any more: the loop has ended
            loop.call_soon_threadsafe(settle, outcome)

    threading.Thread(target=run, name="notice", daemon=True).start()
    return await done
