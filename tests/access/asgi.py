"""A browser that speaks to an ASGI app without a network between, sockets included; one event loop for all that it
does.
"""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx
from starlette.types import ASGIApp, Message

from tests.app.browsing import BASE
from tests.waiting import PATIENCE_S

NONE: Mapping[str, str] = {}


class Ended(Exception):
    """The app closed the socket, or never opened it."""

    def __init__(self, code: int) -> None:
        self.code = code
        super().__init__(f"closed with {code}")


class Socket:
    """One open socket, to which each text said is answered by a text."""

    def __init__(self, runner: asyncio.Runner, heard: "asyncio.Queue[Message]", said: "asyncio.Queue[Message]") -> None:
        self._runner, self._heard, self._said = runner, heard, said

    def say(self, text: str) -> str:
        """Say a text and return the answer; raises Ended."""
        return self._runner.run(self._say(text))

    async def _say(self, text: str) -> str:
        await self._heard.put({"type": "websocket.receive", "text": text})
        answer = await asyncio.wait_for(self._said.get(), PATIENCE_S)
        if answer["type"] == "websocket.close":
            raise Ended(answer["code"])
        return str(answer["text"])


class Browser:
    """One browser, whose requests arrive at the address that it asks for."""

    def __init__(self, app: ASGIApp, base: str = BASE) -> None:
        self.app, self.base = app, base
        self._runner = asyncio.Runner()

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.close()

    def get(self, path: str, headers: Mapping[str, str] = NONE) -> httpx.Response:
        return self._runner.run(self._ask("GET", path, headers=dict(headers)))

    def post(self, path: str, headers: Mapping[str, str] = NONE, **sent: Any) -> httpx.Response:
        return self._runner.run(self._ask("POST", path, headers=dict(headers), **sent))

    async def _ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url=self.base) as client:
            return await client.request(method, path, **options)

    @contextmanager
    def socket(self, headers: Mapping[str, str] = NONE) -> Iterator[Socket]:
        """Open the socket of a page; raises Ended where it is refused."""
        heard: asyncio.Queue[Message] = asyncio.Queue()
        said: asyncio.Queue[Message] = asyncio.Queue()
        where = urlsplit(self.base)
        lines = {"host": where.netloc} | headers
        scope = {
            "type": "websocket",
            "path": "/_stcore/stream",
            "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in lines.items()],
            "server": (where.hostname, where.port),
            "client": ("127.0.0.1", 5),
            "scheme": "ws",
            "subprotocols": [],
        }

        async def open_() -> "asyncio.Task[None]":
            heard.put_nowait({"type": "websocket.connect"})
            task = asyncio.ensure_future(self.app(scope, heard.get, said.put))
            first = await asyncio.wait_for(said.get(), PATIENCE_S)
            if first["type"] == "websocket.close":
                raise Ended(first["code"])
            return task  # type: ignore[return-value]

        async def close(task: "asyncio.Task[None]") -> None:
            heard.put_nowait({"type": "websocket.disconnect", "code": 1000})
            await asyncio.wait_for(task, PATIENCE_S)

        task = self._runner.run(open_())
        try:
            yield Socket(self._runner, heard, said)
        finally:
            self._runner.run(close(task))
