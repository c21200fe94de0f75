"""The caches that all visitors share, so that a hundred people who watch a run cost little more than one.

Both are single-flight: a request for a value in the making waits for it. docs/decisions/caches.md describes how an open
page uses them. Nothing here imports Streamlit.
"""

import asyncio
import gzip
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Generic, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.core.formatting import moment, since
from engine.errors import EngineError, counted
from engine.home import Home
from engine.store import MachineSample, Reader, RunnerRow
from engine.system.machine import machine

NEVER_STORE = {"cache-control": "no-store"}
KEPT = 64
COMPRESSED_FROM = 1_000
"""Bytes from which on a body is compressed, once for all visitors; Streamlit would compress it for each."""
Value = TypeVar("Value")


class VersionedCache(Generic[Value]):
    """The newest version of each of the last `most` names. For any thread."""

    def __init__(self, most: int = KEPT) -> None:
        self._most = most
        self._kept: dict[Hashable, tuple[Hashable, Value]] = {}
        self._lock = Lock()

    def get(self, name: Hashable, version: Hashable, make: Callable[[], Value]) -> Value:
        """Return the value of `name` at `version`, else the one that `make` returns; an error of `make` is raised and
        not cached. Versions need not increase: any other version replaces the value.
        """
        with self._lock:
            found = self._kept.get(name)
            if found is None or found[0] != version:
                found = version, make()
                self._kept.pop(name, None)  # dicts keep their order: the newest are last
                self._kept[name] = found
                _drop_oldest(self._kept, self._most)
            return found[1]


@dataclass(frozen=True)
class CachedBody:
    """A JSON body, and its compressed form if it is long."""

    plain: bytes
    packed: bytes | None

    @classmethod
    def of(cls, content: Any) -> "CachedBody":
        """Return the body of `content`."""
        plain = bytes(JSONResponse(content).body)
        return cls(plain, gzip.compress(plain, 5) if len(plain) >= COMPRESSED_FROM else None)

    def response(self, request: Request) -> Response:
        """Return a response in an encoding that the request accepts."""
        if self.packed and "gzip" in request.headers.get("accept-encoding", ""):
            headers = NEVER_STORE | {"content-encoding": "gzip", "vary": "Accept-Encoding"}
            return Response(self.packed, media_type="application/json", headers=headers)
        return Response(self.plain, media_type="application/json", headers=NEVER_STORE)


class ResponseCache:
    """The newest `KEPT` JSON bodies by request. For one event loop at a time."""

    def __init__(self) -> None:
        self._done: dict[Hashable, CachedBody] = {}
        self._making: dict[Hashable, asyncio.Future[CachedBody]] = {}

    async def get(self, key: Hashable, make: Callable[[], Any]) -> CachedBody:
        """Return the body of `key`, else that of the content that `make` returns, which runs off the event loop; an
        error of `make` is raised for all waiting requests and not cached. `key` includes the content's version.
        """
        if key in self._done:
            return self._done[key]
        if (making := self._making.get(key)) is None:
            making = self._making[key] = asyncio.ensure_future(run_in_threadpool(lambda: CachedBody.of(make())))
            making.add_done_callback(lambda made: self._keep(key, made))
        return await asyncio.shield(making)

    def _keep(self, key: Hashable, made: "asyncio.Future[CachedBody]") -> None:
        self._making.pop(key, None)
        if not made.cancelled() and made.exception() is None:
            self._done[key] = made.result()
            _drop_oldest(self._done, KEPT)


def _drop_oldest(kept: dict[Hashable, Any], most: int) -> None:
    for old in list(kept)[:-most]:
        del kept[old]


# ---- One reader that stays open for all polls ----------------------------------------------------------------------
# For one thread: the server's event loop.

TIMEOUT_S = 0.2
"""A reader never waits with a write-ahead log; a longer wait would block all other requests."""
T = TypeVar("T")


class SharedReader:
    """A reader of the home's store; reopened for another home, or when the store's file was replaced."""

    def __init__(self) -> None:
        self._reader: Reader | None = None
        self._of: tuple[Path, int, int] | None = None

    def answer(self, home: Home, question: Callable[[Reader], T]) -> T:
        """Return the answer to a query; on StoreBusy, StoreError or StoreTooNew close the connection and raise."""
        try:
            return question(self._opened(home))
        except EngineError:
            self.close()
            raise

    def token(self, home: Home, run_id: int | None = None) -> int:
        """Return the change token of a run, or the highest of all runs; raises as `answer` does."""
        return self.answer(home, lambda reader: reader.runs.token(run_id))

    def close(self) -> None:
        """Close the connection, if any."""
        if self._reader:
            self._reader.close()
        self._reader = self._of = None

    def _opened(self, home: Home) -> Reader:
        found = _file(home)
        if self._reader is None or found is None or found != self._of:
            self.close()
            self._reader, self._of = Reader.open(home, timeout_s=TIMEOUT_S), found
        return self._reader


def _file(home: Home) -> tuple[Path, int, int] | None:
    """Return the identity of the store's file, None without one."""
    with suppress(OSError):
        about = home.database.stat()
        return home.database, about.st_dev, about.st_ino
    return None


# ---- The machine as the runner last sampled it: its load, and the change token of the Machine page -----------------

# ---- The load of the machine as the runner last sampled it, and the part of other programs -------------------------

OTHERS = 0.2
"""Share of the CPU beyond the allocated cores from which other programs are named."""
Loads = Mapping[tuple[str, str], float]


def fresh(samples: Sequence[MachineSample]) -> Loads:
    """Return the values of recent samples by source and name."""
    return {(sample.source, sample.name): sample.value for sample in samples if (since(sample.at) or 0.0) < SILENT_S}


def share_of_others(percent: float | None, held: float) -> float:
    """Return the share of the CPU (0 to 1) beyond that of the allocated cores: at least this is of other programs."""
    return max(0.0, (percent or 0.0) / 100 - held)


def slowed_by_others(reader: Reader) -> str:
    """Return that other programs use many cores now, so that a run may take longer, as a sentence; else empty."""
    cores = machine().cores
    held = sum(run.demand.cores for run in reader.queue.alive()) / cores
    share = share_of_others(fresh(reader.machine.latest()).get(("host", "cpu_percent")), held)
    if share < OTHERS:
        return ""
    least = "at least " if held else ""
    return f"Other programs use {least}{share * cores:.1f} of {counted(cores, 'core')}: it may take longer."


# ---- The change token of the Machine page, for the page and its route ----------------------------------------------
# Nothing here imports Streamlit.

SILENT_S = 10.0


def machine_token(reader: Reader) -> int:
    """Return a number that changes with each sample, each change of a run, and when the runner becomes silent."""
    newest = reader.machine.newest()
    return (
        reader.runs.token()
        + (round(moment(newest).timestamp() * 1000) if newest else 0)
        + is_silent(reader.runner.current())
    )


def is_silent(row: RunnerRow | None, after_s: float | None = None) -> bool:
    """Return whether the runner's last heartbeat is so old (default: `SILENT_S`) that it has died or hangs."""
    return row is None or (since(row.heartbeat_at) or 0.0) > (SILENT_S if after_s is None else after_s)
