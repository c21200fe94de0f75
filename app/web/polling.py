"""Load of the console: the fast path of polled routes, backpressure on open pages, and limits on connections."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import h11
from starlette.datastructures import MutableHeaders
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from app.core.visitor import PEER
from engine.system.processes import raise_open_files

# ---- The fast path for polled routes, and the backpressure on open pages while the console is overloaded -----------
# Every open page polls these routes. They are answered right behind the gate and bypass Streamlit's middleware,
# which takes longer than the response. `routes.py` makes the answers; docs/decisions/caches.md shows the whole
# path.

SLOWER = "x-slower"
"""The header with the factor on the polling interval, used by chart.js and pulse.js; omitted if it is 1."""
LOOK_S = 0.25
AVERAGED_LOOKS = 20
"""Measurements in the running average: five seconds."""
USUAL_S = 0.05
"""Average lateness up to which the loop is not overloaded."""
MOST_LOAD = 4.0
"""Greatest factor: live runs are still updated every three or four seconds."""


class Backpressure:
    """The lateness of one event loop, and the resulting factor on polling intervals.

    A late loop is overloaded, or shares its core with other processes.
    """

    def __init__(self) -> None:
        self.late_s = 0.0
        """Average lateness over the last seconds."""

    @property
    def slower(self) -> float:
        """Factor on a page's polling interval: 1 to `MOST`, in tenths."""
        return round(min(MOST_LOAD, max(1.0, self.late_s / USUAL_S)), 1)

    def note(self, late_s: float) -> None:
        """Add one measurement of the lateness."""
        self.late_s += (max(0.0, late_s) - self.late_s) / AVERAGED_LOOKS

    async def keep(self) -> None:
        """Measure the lateness of the running loop every `LOOK_S`, until cancelled."""
        clock = asyncio.get_running_loop().time
        while True:
            due = clock() + LOOK_S
            await asyncio.sleep(LOOK_S)
            self.note(clock() - due)


backpressure = Backpressure()
"""The backpressure of the console's loop: one console is one process."""


class PollingRoutes:
    """ASGI middleware that handles GET requests for its routes; all others go to `app`."""

    def __init__(self, app: ASGIApp, routes: Sequence[Route], backpressure: Backpressure) -> None:
        self.app = app
        self.routes = {route.path: route for route in routes}
        self.backpressure = backpressure

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = self.routes.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "GET" else None
        if route is None:
            await self.app(scope, receive, send)
            return
        found, more = route.matches(scope)
        assert found is Match.FULL, f"{route.path} is a path without parameters"
        scope.update(more, route=route)
        slower = self.backpressure.slower

        async def send_slower(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[SLOWER] = f"{slower:g}"
            await send(message)

        await route.handle(scope, receive, send_slower if slower > 1 else send)


# ---- Limits on request duration and connections, so that slow or idle clients don't starve others ------------------
# uvicorn waits for headers and bodies without a timeout. Only requests are limited, not responses, downloads or
# open WebSockets; those a console that is to end waits for only so long.

HEADERS_S = 10.0
"""From the first byte of a request, or the start of its connection, to the end of its headers."""
LEAST_RATE = 16_000
"""Least average rate of a body, in bytes per second."""
GRACE_S = 10.0
"""Extra seconds for a body."""
SHUTDOWN_S = 5.0
"""How long a console that is to end waits for responses; a client that reads none of its download can't hold it."""
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
    connections: set[Any] = field(default_factory=set)
    """All connections of the server, WebSockets too."""


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
        for connection in room.connections:
            connection.transport.abort()


def _bounded(made: Any, room: ConnectionLimit) -> Any:
    """Return a bounded connection for a uvicorn protocol; any other protocol unchanged."""
    if not hasattr(made, "server_state"):
        return made
    made.config.timeout_graceful_shutdown = SHUTDOWN_S  # Streamlit sets no limit
    room.connections = made.server_state.connections
    return BoundedProtocol(made.config, made.server_state, made.app_state, room)
