"""Keeps a runner alive while the console serves: started where none is, and again when it died; one that was stopped stays so."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import psutil
from starlette.concurrency import run_in_threadpool

from app.sockets import send_at_once
from engine.errors import EngineError
from engine.home import Home
from engine.runtime.runner import ensure_running, has_died, runner_process
from engine.store import Store

log = logging.getLogger(__name__)
LOOK_S = 3.0


@asynccontextmanager
async def supervised(app: object) -> AsyncIterator[None]:
    """Watch over the runner while the block runs; the runner itself outlives it."""
    work = asyncio.gather(_watch(Home.find()), _hurry())
    try:
        yield
    finally:
        work.cancel()
        with suppress(asyncio.CancelledError):
            await work


async def _hurry() -> None:
    """Have answers leave at once, as soon as the server listens (it begins to after the start of this block)."""
    with suppress(OSError, psutil.Error):
        while not await run_in_threadpool(send_at_once):
            await asyncio.sleep(0.1)


async def _watch(home: Home) -> None:
    act = start
    while True:
        try:
            await run_in_threadpool(act, home)
            act = look
        except (EngineError, OSError) as error:
            log.warning("The runner could not be looked after: %s", error)
        await asyncio.sleep(LOOK_S)


def start(home: Home) -> bool:
    """Bring the store up to date and start a runner where none is alive; return whether one was started."""
    with Store.open(home):
        pass  # of a store that an older version left nobody could ask whether its runner is alive
    return runner_process(home) is None and ensure_running(home)


def look(home: Home) -> bool:
    """Start a runner where one has died; return whether one was started. One that was stopped signs off, and stays stopped."""
    return has_died(home) and ensure_running(home)
