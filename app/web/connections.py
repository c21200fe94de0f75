"""Limits on request duration and connections, so that slow or idle clients don't starve others.

uvicorn waits for headers and bodies without a timeout. Only requests are limited, not responses, downloads or open
WebSockets.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from app.core.client_address import PEER
from engine.system.processes import raise_open_files

HEADERS_S = 10.0
"""From the first byte of a request, or the start of its connection, to the end of its headers."""
LEAST_RATE = 16_000
"""Least average rate of a body, in bytes per second."""
GRACE_S = 10.0
"""Extra seconds for a body."""
MOST_CONNECTIONS = 2_000
"""Greatest number of connections; half of the process's open file limit if that is less."""
TICK_S = 1.0
TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
FULL = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\nretry-after: 1\r\n\r\n"


@dataclass
class ConnectionLimit:
    """The connection limit of one server."""

    most: int
    without_request: "dict[BoundedProtocol, None]" = field(default_factory=dict)
    """Connections without complete headers, oldest first."""


class BoundedProtocol(H11Protocol):
    """A uvicorn connection that is closed with 408 if its request is too slow, and with 503 above the limit."""

    def __init__(
        self, config: Any, server_state: ServerState, app_state: dict[str, Any], room: ConnectionLimit
    ) -> None:
        super().__init__(config, server_state, app_state)
        self._room = room
        self._stage: object = None
        self._waited_s = 0.0
        self._received = 0
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.app_state = self.app_state | {PEER: self.client[0] if self.client else ""}
        if len(self.connections) <= self._room.most:
            self._watch()
        elif longest := next(iter(self._room.without_request), None):
            longest.end(b"")
            self._watch()
        else:
            self.end(FULL)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch(len(data))

    def connection_lost(self, exc: Exception | None) -> None:
        self._rest()
        super().connection_lost(exc)

    def end(self, answer: bytes) -> None:
        """Close the connection, with a response if none to this request has started."""
        self._rest()
        cycle = self.cycle if self._stage is h11.SEND_BODY else None
        if cycle is None or not cycle.response_started:
            self.transport.write(answer)
        if cycle is not None and cycle.response_started and not cycle.response_complete:
            self.transport.abort()
        else:
            self.transport.close()

    def _watch(self, received: int = 0) -> None:
        """Update what the connection waits for: headers (h11.IDLE), a body (h11.SEND_BODY), or nothing."""
        if self.conn.their_state is self._stage:
            self._received += received
            return
        self._rest()
        self._stage, self._waited_s, self._received = self.conn.their_state, 0.0, received
        if self.transport.is_closing() or self.transport.get_protocol() is not self:  # now a WebSocket
            return
        if self._stage is h11.IDLE:
            self._room.without_request[self] = None
        if self._stage in (h11.IDLE, h11.SEND_BODY):
            self._timer = self.loop.call_later(TICK_S, self._tick)

    def _tick(self) -> None:
        """Count a second in which the client could have sent, except while reading is paused or it waits for a 100
        Continue.
        """
        is_body = self._stage is h11.SEND_BODY
        if not (self.flow.read_paused or (is_body and self.cycle.waiting_for_100_continue)):
            self._waited_s += TICK_S
        allowed_s = GRACE_S + self._received / LEAST_RATE if is_body else HEADERS_S
        if self._waited_s < allowed_s:
            self._timer = self.loop.call_later(TICK_S, self._tick)
        else:
            self.end(TOO_SLOW if self._received else b"")

    def _rest(self) -> None:
        self._room.without_request.pop(self, None)
        if self._timer:
            self._timer.cancel()
            self._timer = None


@contextmanager
def bounded_connections() -> Iterator[None]:
    """Limit the connections of servers that begin to listen in this event loop within the block."""
    loop: Any = asyncio.get_running_loop()
    room = ConnectionLimit(min(MOST_CONNECTIONS, raise_open_files() // 2))
    create_server = loop.create_server

    async def create_bounded(made: Callable[[], Any], *args: Any, **options: Any) -> Any:
        if options.get("ssl"):
            options.setdefault("ssl_handshake_timeout", HEADERS_S)
        return await create_server(lambda: _bounded(made(), room), *args, **options)

    loop.create_server = create_bounded
    try:
        yield
    finally:
        del loop.create_server


def _bounded(made: Any, room: ConnectionLimit) -> Any:
    """Return a bounded connection for a uvicorn protocol; any other protocol unchanged."""
    return (
        BoundedProtocol(made.config, made.server_state, made.app_state, room) if hasattr(made, "server_state") else made
    )
