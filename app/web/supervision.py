"""Keeps a runner alive while the console is running: starts one if there is none, and restarts one that died; a stopped
runner stays stopped.

If a system service manages the runner (`PARALLAB_RUNNER=separate`), the console starts none.
"""

import asyncio
import ctypes
import logging
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import replace

import psutil
from starlette.concurrency import run_in_threadpool

from app.core.console_address import REFUSED, ConsoleAddress, greeting, refusal
from app.web.polling import backpressure, bounded_connections
from engine.access import command_link
from engine.errors import EngineError
from engine.home import Home, set_private
from engine.runner.shared_settings import RESTART, ignored_settings
from engine.store import Store
from engine.system.confinement import machine_confinement
from engine.system.runner_process import console_presence, ensure_running, has_console, has_died, runner_process

log = logging.getLogger(__name__)
LOOK_S = 3.0


@asynccontextmanager
async def supervised(app: object) -> AsyncIterator[None]:
    """Supervise the runner, the event loop's lateness and free memory within the block; the runner outlives it."""
    set_private()
    with ExitStack() as held:
        try:
            home = Home.find()
            is_first = not has_console(home)
            held.enter_context(console_presence(home))
            if is_first:
                command_link.renew(home, ConsoleAddress.of().url)
        except (EngineError, OSError) as error:
            log.warning("The home can't be marked as served: %s", error)
        async with _supervised():
            yield


@asynccontextmanager
async def _supervised() -> AsyncIterator[None]:
    work = asyncio.gather(_watch(Home.find()), _configure_sockets(), backpressure.keep(), keep_small())
    try:
        with bounded_connections():
            yield
    finally:
        work.cancel()
        with suppress(asyncio.CancelledError):
            await work


async def _configure_sockets() -> None:
    """Once the server listens, set TCP_NODELAY, say where it is, and exit if the address is not allowed.

    A server started directly (uvicorn with a host) was not checked before.
    """
    with suppress(OSError, psutil.Error, EngineError):
        while not await run_in_threadpool(send_at_once):
            await asyncio.sleep(0.1)
        serving = ConsoleAddress.of()
        for address, port in await run_in_threadpool(listening):
            if reason := await run_in_threadpool(refusal, replace(ConsoleAddress(), address=address)):
                print(reason, file=sys.stderr, flush=True)
                raise SystemExit(REFUSED)
            serving = replace(serving, port=port)
        home = Home.find()
        with suppress(OSError):  # a home that can't be written has no link
            command_link.serve_at(home, serving.url)
        print(greeting(home, serving.url, sys.stdout.fileno()), flush=True)
        await run_in_threadpool(machine_confinement)  # takes a second, and the Launch page shows it


async def _watch(home: Home) -> None:
    act = start
    while True:
        try:
            await run_in_threadpool(act, home)
            act = look
        except (EngineError, OSError) as error:
            log.warning("Runner supervision failed: %s", error)
        await asyncio.sleep(LOOK_S)


def start(home: Home) -> bool:
    """Upgrade the store and start a runner if none is alive; return whether one was started."""
    with Store.open(home):
        pass  # the runner's state can't be read from a store of an older version
    for sentence in ignored_settings(home):
        log.warning("%s %s", sentence, RESTART)
    return runner_process(home) is None and ensure_running(home)


def look(home: Home) -> bool:
    """Restart a runner that died; return whether one was started. A stopped runner has signed off and stays stopped."""
    return has_died(home) and ensure_running(home)


def send_at_once() -> int:
    """Set TCP_NODELAY on every listening TCP socket of this process, which connections inherit; return their number.

    Without it, Streamlit's sockets delay small responses by up to 40 ms (Nagle's algorithm with delayed ACKs).
    """
    found = list(_listening())
    for family, descriptor, _ in found:
        with socket.fromfd(descriptor, family, socket.SOCK_STREAM) as twin:
            twin.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return len(found)


def listening() -> list[tuple[str, int]]:
    """Return the addresses and ports that this process listens on."""
    return [place for *_, place in _listening()]


def _listening() -> Iterator[tuple[int, int, tuple[str, int]]]:
    for one in psutil.Process().net_connections("tcp"):
        if one.status == psutil.CONN_LISTEN and one.fd >= 0:
            yield one.family, one.fd, (one.laddr.ip, one.laddr.port)


# ---- glibc malloc settings that limit the console's memory ---------------------------------------------------------
# Each page script runs in a new thread, and glibc gives threads up to eight heaps per core; free memory of one heap
# is not available to another. Python runs one thread at a time, so few heaps are as fast. Free memory within a heap
# is fragmented, and glibc returns only its end to the system automatically.

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
