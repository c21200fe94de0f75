"""Keeps a runner alive while the console is running: starts one if there is none, and restarts one that died; a stopped
runner stays stopped.

If a system service manages the runner (`PARALLAB_RUNNER=separate`), the console starts none.
"""

import asyncio
import contextlib
import ctypes
import errno
import http.client
import ipaddress
import logging
import os
import re
import socket
import sys
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace

import psutil
from starlette.concurrency import run_in_threadpool

from app.auth.middleware import FAR, LOOPBACK, is_loopback
from app.core import assets
from app.core.visitor import visitor_now
from app.web.polling import backpressure, bounded_connections
from engine.errors import ConfigError, EngineError, Problem
from engine.home import Home, private, set_private
from engine.notices.public_url import VARIABLE as PUBLIC_URL
from engine.notices.public_url import public_url
from engine.runner.shared_settings import RESTART, ignored_settings
from engine.store import Store
from engine.system.runner_process import console_presence, ensure_running, has_died, runner_process

# ---- The console's address, port, host names and base path from the environment, and whether they are allowed ------
# Without accounts the console may serve only this machine: anyone who reaches it could start processes here.

ADDRESS, PORT, HOSTS = "PARALLAB_ADDRESS", "PARALLAB_PORT", "PARALLAB_HOSTS"
REFUSED = 2
"""Exit code for a configuration that is not allowed, as on the command line."""
_HOST = re.compile(r"(\*\.)?[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*|\[[0-9a-f:.]+\]")
_BASE = re.compile(r"(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*")


@dataclass(frozen=True)
class ConsoleAddress:
    """The address and port that the console listens on, its host names and base path."""

    address: str = "127.0.0.1"
    port: int = 8501
    hosts: tuple[str, ...] = LOOPBACK
    """The names it answers to, always including those of loopback."""
    base: str = ""

    @classmethod
    def of(cls, environment: Mapping[str, str] = os.environ) -> "ConsoleAddress":
        """Return the configuration in the environment; raises ConfigError with a message for each invalid value."""
        problems = [
            *_wrong_address(environment),
            *_wrong_port(environment),
            *_wrong_hosts(environment),
            *_wrong_base(environment),
            *_wrong_url(environment),
        ]
        if problems:
            raise ConfigError(problems)
        found = environment.get(ADDRESS) or cls.address, int(environment.get(PORT) or cls.port)
        return cls(*found, answering(_names(environment)), _path(environment))

    @property
    def is_near(self) -> bool:
        """Return whether only this machine can connect."""
        return is_loopback(self.address) and set(self.hosts) <= set(LOOPBACK)


def answering(names: Iterable[str]) -> tuple[str, ...]:
    """Return these names and those of loopback."""
    return tuple(dict.fromkeys((*LOOPBACK, *names)))


def refusal(serving: ConsoleAddress) -> str:
    """Return why this configuration is not allowed; empty if it is. Creates or upgrades the home's store.

    Raises StoreError, StoreBusy, StoreTooNew.
    """
    if serving.is_near:
        return ""
    with private(), Store.open(Home.find()):
        pass
    return "" if visitor_now({}).asked else FAR


def _names(environment: Mapping[str, str]) -> list[str]:
    return [name.lower() for name in re.split(r"[\s,]+", environment.get(HOSTS, "")) if name]


def _path(environment: Mapping[str, str]) -> str:
    given = environment.get(assets.VARIABLE, "").strip("/")
    return f"/{given}" if given else ""


def _wrong_address(environment: Mapping[str, str]) -> list[Problem]:
    given = environment.get(ADDRESS) or ConsoleAddress.address
    try:
        ipaddress.ip_address(given)
    except ValueError:
        if given != "localhost":
            cure = "127.0.0.1 for this machine only, 0.0.0.0 for all networks, or the address of one"
            return [
                Problem(
                    ADDRESS,
                    (
                        f"{ADDRESS} must be an address to listen on ({cure}), got '{given}'. Names go into "
                        f"{HOSTS}, the URL of links into {PUBLIC_URL}."
                    ),
                )
            ]
    return []


def _wrong_url(environment: Mapping[str, str]) -> Sequence[Problem]:
    try:
        public_url(environment)
    except ConfigError as error:
        return error.problems
    return ()


def _wrong_port(environment: Mapping[str, str]) -> list[Problem]:
    given = environment.get(PORT) or str(ConsoleAddress.port)
    fine = given.isascii() and given.isdecimal() and 1 <= int(given) <= 65_535
    return [] if fine else [Problem(PORT, f"{PORT} must be a whole number from 1 to 65535, got '{given}'.")]


def _wrong_hosts(environment: Mapping[str, str]) -> list[Problem]:
    wrong = [name for name in _names(environment) if not _HOST.fullmatch(name)]
    rule = (
        f"{HOSTS} must be host names without scheme, port or path, comma-separated, such as lab.example.org or "
        "*.example.org"
    )
    return [Problem(HOSTS, f"{rule}, got '{name}'.") for name in wrong]


def _wrong_base(environment: Mapping[str, str]) -> list[Problem]:
    path = _path(environment)
    if _BASE.fullmatch(path):
        return []
    return [
        Problem(
            assets.VARIABLE,
            f"{assets.VARIABLE} must be a path of letters, digits, '-', '.', '_' and '~' such as /lab, got '{path}'.",
        )
    ]


# ---- Keeps a runner alive while the console is running -------------------------------------------------------------
# starts one if there is none, and restarts one that died; a stopped runner stays stopped. If a system service manages
# the runner (`PARALLAB_RUNNER=separate`), the console starts none.

log = logging.getLogger(__name__)
LOOK_S = 3.0


@asynccontextmanager
async def supervised(app: object) -> AsyncIterator[None]:
    """Supervise the runner, the event loop's lateness and free memory within the block; the runner outlives it."""
    set_private()
    with ExitStack() as held:
        try:
            held.enter_context(console_presence(Home.find()))
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
    """Once the server listens, set TCP_NODELAY, and exit if the address is not allowed.

    A server started directly (uvicorn with a host) was not checked before.
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


def listening() -> list[str]:
    """Return the addresses that this process listens on."""
    return [address for *_, address in _listening()]


def _listening() -> Iterator[tuple[int, int, str]]:
    for one in psutil.Process().net_connections("tcp"):
        if one.status == psutil.CONN_LISTEN and one.fd >= 0:
            yield one.family, one.fd, one.laddr.ip


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


# ---- `python -m app.web.supervision` -------------------------------------------------------------------------------
# health check of the console at the address of the environment; also checks whether a port is free. Imports no module
# of ours.

WITHIN_S = 4.0
"""Timeout of the health check."""


def complaint(port: int, address: str = "127.0.0.1") -> str:
    """Return why the console can't listen on `port` of `address`, empty if it can."""
    try:
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind((address, port))
    except OSError as error:
        if is_console(port, address):
            who = "a Parallab console: open it in the browser"
        elif error.errno != errno.EADDRINUSE:
            return f"Can't listen on port {port} of {address}: {error.strerror}. Choose another port or address."
        else:
            who = f"another program ({error.strerror})"
        return (
            f"Port {port} is in use by {who}. To start another console, choose another port: make run PORT={port + 1}"
        )
    return ""


def trouble(port: int, address: str = "127.0.0.1") -> str:
    """Return the problem with the console at this address, empty if it is healthy."""
    status, body = _health(port, address)
    if b'"parallab"' not in body:
        return f"No Parallab console responds on port {port} of {address}."
    return (
        ""
        if status == http.client.OK
        else f"The console responds with status {status}: {body.decode(errors='replace')[:500]}"
    )


def is_console(port: int, address: str = "127.0.0.1") -> bool:
    """Return whether a console of Parallab answers there."""
    return b'"parallab"' in _health(port, address)[1]


def _health(port: int, address: str) -> tuple[int, bytes]:
    """Return status and body of the health check; 0 and an empty body without an HTTP response."""
    connection = http.client.HTTPConnection(
        {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address, address), port, timeout=WITHIN_S
    )
    with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
        connection.request("GET", "/healthz", headers={"host": f"127.0.0.1:{port}"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    return 0, b""


if __name__ == "__main__":
    sys.exit(
        trouble(int(os.environ.get("PARALLAB_PORT") or 8501), os.environ.get("PARALLAB_ADDRESS") or "127.0.0.1") or 0
    )
