"""Answers made once for all who ask the same of the same version of a run: a hundred people who watch it cost little
more than one.
"""

import asyncio
import gzip
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

NEVER_STORE = {"cache-control": "no-store"}
KEPT = 64
SMALL = 1_000
"""Bytes from which on a body is sent compressed; Streamlit would compress it anew for everyone."""


@dataclass(frozen=True)
class CachedBody:
    """A JSON text, and the same compressed where it is long."""

    plain: bytes
    packed: bytes | None

    @classmethod
    def of(cls, content: Any) -> "CachedBody":
        """Return the body of an answer."""
        plain = bytes(JSONResponse(content).body)
        return cls(plain, gzip.compress(plain, 5) if len(plain) >= SMALL else None)

    def answer(self, request: Request) -> Response:
        """Return the answer in the form that the asker takes."""
        if self.packed and "gzip" in request.headers.get("accept-encoding", ""):
            return Response(
                self.packed,
                media_type="application/json",
                headers=NEVER_STORE | {"content-encoding": "gzip", "vary": "Accept-Encoding"},
            )
        return Response(self.plain, media_type="application/json", headers=NEVER_STORE)


class Bodies:
    """The newest bodies, by what was asked; one that is being made is waited for, not made twice. For one event loop at
    a time.
    """

    def __init__(self) -> None:
        self._done: dict[Hashable, CachedBody] = {}
        self._making: dict[Hashable, asyncio.Future[CachedBody]] = {}

    async def get(self, key: Hashable, make: Callable[[], Any]) -> CachedBody:
        """Return the body kept under `key`, else that of the content that `make` returns, which runs off the event
        loop; what it raises is raised.
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
        for old in list(self._done)[:-KEPT]:
            del self._done[old]
