"""Keeps a runner alive while the console serves: started where none is, and again when it died; one that was stopped
stays so.

Where a service of the machine sees to the runner (`PARALLAB_RUNNER=separate`), the console starts none.
"""

import asyncio
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import psutil
from starlette.concurrency import run_in_threadpool

from app.web.connections import bounded_connections
from app.web.malloc import keep_small
from app.web.polling import backpressure
from app.web.server_config import REFUSED, ConsoleAddress, refusal
from app.web.sockets import listening, send_at_once
from engine.errors import EngineError
from engine.home import Home
from engine.runner.shared_settings import RESTART, ignored_settings
from engine.store import Store
from engine.system.runner_process import ensure_running, has_died, runner_process
from engine.umask import set_private

log = logging.getLogger(__name__)
LOOK_S = 3.0


@asynccontextmanager
async def supervised(app: object) -> AsyncIterator[None]:
    """Watch over the runner, how late the loop is and what memory lies free while the block runs; the runner itself
    outlives it.
    """
    set_private()
    work = asyncio.gather(_watch(Home.find()), _see_to_sockets(), backpressure.keep(), keep_small())
    try:
        with bounded_connections():
            yield
    finally:
        work.cancel()
        with suppress(asyncio.CancelledError):
            await work


async def _see_to_sockets() -> None:
    """As soon as the server listens (it begins to after the start of this block), have answers leave at once, and end
    it where it may not listen.

    Who starts a server of their own (uvicorn with a host) was not asked before.
    """
    with suppress(OSError, psutil.Error, EngineError):
        while not await run_in_threadpool(send_at_once):
            await asyncio.sleep(0.1)
        for address in await run_in_threadpool(listening):
            if reason := await run_in_threadpool(refusal, replace(ConsoleAddress(), address=address)):
                print(reason, file=sys.stderr, flush=True)
                raise SystemExit(REFUSED)


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
    for sentence in ignored_settings(home):
        log.warning("%s %s", sentence, RESTART)
    return runner_process(home) is None and ensure_running(home)


def look(home: Home) -> bool:
    """Start a runner where one has died; return whether one was started. One that was stopped signs off, and stays
    stopped.
    """
    return has_died(home) and ensure_running(home)
