"""Run blocking calls of an event loop in daemon threads."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


async def apart(act: Callable[[], T]) -> T:
    """Return a call's result, or raise its error. If the caller stops waiting, the thread still runs to its end."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(result: Callable[[], None]) -> None:
        if not done.done():
            result()

    def run() -> None:
        try:
            found = act()
        except Exception as error:
            raised = error
            outcome: Callable[[], None] = lambda: done.set_exception(raised)  # noqa: E731
        else:
            outcome = lambda: done.set_result(found)  # noqa: E731
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(settle, outcome)

    threading.Thread(target=run, name="notice", daemon=True).start()
    return await done
