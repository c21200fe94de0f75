"""How a tab asks our routes: over one connection kept open, opened anew as a browser does where the server closed it;
httpx takes more than the server does.
"""

import asyncio
import json
import zlib
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit


class Route:
    """One kept-open connection, which asks as Chromium does."""

    def __init__(self, host: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, cookie: str = "") -> None:
        self.reader, self.writer = reader, writer
        shown = f"Cookie: {cookie}\r\n" if cookie else ""
        self.slower = 1.0
        """How many times as long as usual the last answer asked to wait."""
        self.head = (
            f" HTTP/1.1\r\nHost: {host}\r\nAccept: */*\r\nAccept-Encoding: gzip, deflate, br\r\nSec-Fetch-Site: "
            f"same-origin\r\n{shown}\r\n"
        )

    @classmethod
    async def open(cls, address: str, cookie: str = "") -> "Route":
        """Connect to the console at an address, as whoever the cookie stands for."""
        where = urlsplit(address)
        return cls(where.netloc, *await asyncio.open_connection(where.hostname, where.port), cookie)

    async def get(self, path: str) -> dict[str, Any]:
        """Return the JSON of one answer; raises ConnectionError where it is not one."""
        self.writer.write(f"GET {path}{self.head}".encode())
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines[1:] if line)
        body = await self.reader.readexactly(int(headers["content-length"]))
        if " 200 " not in lines[0]:
            raise ConnectionError(f"{path} was answered '{lines[0]}': {body[:200]!r}")
        self.slower = float(headers.get("x-slower", 1))
        found: dict[str, Any] = json.loads(
            zlib.decompress(body, 31) if headers.get("content-encoding") == "gzip" else body
        )
        return found

    def close(self) -> None:
        """End the connection."""
        with suppress(OSError):
            self.writer.close()


class Line:
    """A connection to our routes that is opened anew where the server closed it, as it does with one that was idle for
    some seconds.
    """

    def __init__(self, address: str, cookie: str = "") -> None:
        self.address, self.cookie = address, cookie
        self._route: Route | None = None

    async def get(self, path: str) -> dict[str, Any]:
        """Return the JSON of one answer; raises ConnectionError where it is not one."""
        if self._route:
            with suppress(asyncio.IncompleteReadError, ConnectionResetError, BrokenPipeError):
                return await self._route.get(path)
            self._route.close()
        self._route = await Route.open(self.address, self.cookie)
        return await self._route.get(path)

    @property
    def slower(self) -> float:
        """How many times as long as usual the last answer asked to wait."""
        return self._route.slower if self._route else 1.0

    def close(self) -> None:
        """End the connection."""
        if self._route:
            self._route.close()
