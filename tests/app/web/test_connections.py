"""Connections to a server whose bounds are short: real sockets, and each way to be slow or many."""

import asyncio
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect
from websockets.exceptions import ConnectionClosed, InvalidHandshake
from websockets.sync.client import ClientConnection, connect

from app.web import polling
from app.web.polling import bounded_connections
from tests.waiting import PATIENCE_S, wait_until

BOUND_S, TICK_S, LEAST_RATE = 0.3, 0.02, 1_000
GET = b"GET /length HTTP/1.1\r\nHost: here\r\n\r\n"


async def _length(request: Request) -> PlainTextResponse:
    return PlainTextResponse(f"length {len(await request.body())}")


async def _early(request: Request) -> PlainTextResponse:
    return PlainTextResponse("an answer before the body")


async def _long(request: Request) -> StreamingResponse:
    async def parts() -> AsyncIterator[bytes]:
        for _ in range(4):
            await asyncio.sleep(BOUND_S / 2)
            yield b"part "

    return StreamingResponse(parts())


async def _endless(request: Request) -> StreamingResponse:
    async def parts() -> AsyncIterator[bytes]:
        while True:
            yield bytes(1_000_000)

    return StreamingResponse(parts())


async def _echo(page: WebSocket) -> None:
    await page.accept()
    with suppress(WebSocketDisconnect):
        while True:
            await page.send_text(await page.receive_text())


@asynccontextmanager
async def _bounded(app: object) -> AsyncIterator[None]:
    with bounded_connections():
        yield


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., int]]:
    """Serve a small app with at most so many connections; return its port."""
    monkeypatch.setattr(polling, "HEADERS_S", BOUND_S)
    monkeypatch.setattr(polling, "GRACE_S", BOUND_S)
    monkeypatch.setattr(polling, "TICK_S", TICK_S)
    monkeypatch.setattr(polling, "LEAST_RATE", LEAST_RATE)
    monkeypatch.setattr(polling, "SHUTDOWN_S", BOUND_S)
    with ExitStack() as stack:

        def start(most: int = 100) -> int:
            monkeypatch.setattr(polling, "MOST_CONNECTIONS", most)
            return stack.enter_context(_served())

        yield start


@contextmanager
def _served() -> Iterator[int]:
    methods = ["GET", "POST"]
    routes = [
        Route("/length", _length, methods=methods),
        Route("/early", _early, methods=methods),
        Route("/long", _long),
        Route("/endless", _endless),
        WebSocketRoute("/echo", _echo),
    ]
    server = uvicorn.Server(
        uvicorn.Config(
            Starlette(routes=routes, lifespan=_bounded),
            port=0,
            log_level="critical",
            ws="websockets-sansio",
        )
    )
    thread = threading.Thread(target=server.run)
    thread.start()
    wait_until(lambda: server.started, "the server has started")
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(PATIENCE_S)
        assert not thread.is_alive(), "the server ends although clients keep their connections"


def opened(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)


def open_websocket(port: int) -> ClientConnection:
    """Open a WebSocket, again where this process was too slow for the short bound on its request."""
    for _ in range(20):
        with suppress(ConnectionClosed, InvalidHandshake):
            return connect(f"ws://127.0.0.1:{port}/echo", open_timeout=PATIENCE_S)
    raise AssertionError("the server takes no WebSocket")


def rest(client: socket.socket) -> bytes:
    """Return what the server says until it ends the connection."""
    found = b""
    with suppress(ConnectionError):
        while part := client.recv(65_536):
            found += part
    return found


def until(client: socket.socket, words: bytes) -> bytes:
    """Return what the server says up to those words; fail where it ends the connection before."""
    found = b""
    while words not in found:
        part = client.recv(65_536)
        assert part, found
        found += part
    return found


def drip(client: socket.socket, data: bytes, every_s: float = TICK_S) -> None:
    """Send byte by byte until the server has enough of it."""
    with suppress(OSError):
        for index in range(len(data)):
            client.sendall(data[index : index + 1])
            time.sleep(every_s)


def asked(port: int) -> bytes:
    with opened(port) as client:
        client.sendall(GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        return rest(client)


def post(path: str, length: int) -> bytes:
    return f"POST {path} HTTP/1.1\r\nHost: here\r\nContent-Length: {length}\r\n\r\n".encode()


def test_headers_that_come_too_slowly_end_the_connection_whichever_request_they_are_of(
    serve: Callable[..., int],
) -> None:
    port = serve()
    with opened(port) as client:
        drip(client, b"GET /length HTTP/1.1\r\nX-Long: " + b"a" * 10_000)
        assert b"408 Request Timeout" in rest(client).partition(b"\r\n")[0]
    with opened(port) as client:
        client.sendall(GET)
        until(client, b"length 0")
        client.sendall(GET)
        until(client, b"length 0")
        drip(client, b"GET /length HTTP/1.1\r\nX-Long: " + b"a" * 10_000)
        assert b"408" in rest(client)
    with opened(port) as client:
        assert rest(client) == b""


def test_slow_bodies_are_ended_before_and_after_their_answer_and_waiting_for_leave_is_not_slow(
    serve: Callable[..., int],
) -> None:
    port = serve()
    with opened(port) as client:
        client.sendall(post("/length", 10_000))
        drip(client, b"a" * 10_000)
        assert b"408" in rest(client).partition(b"\r\n")[0]
    with opened(port) as client:
        client.sendall(post("/length", 25 * 1_000))
        for _ in range(25):  # far longer than the bound, far faster than the least rate
            client.sendall(b"a" * 1_000)
            time.sleep(BOUND_S / 10)
        until(client, b"length 25000")
    with opened(port) as client:
        client.sendall(post("/early", 10_000))
        drip(client, b"a" * 10_000)
        said = rest(client)
        assert said.count(b"HTTP/1.1") == 1 and b"an answer before the body" in said
    with opened(port) as client:
        client.sendall(post("/length", 5).replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n"))
        until(client, b"100 Continue")
        client.sendall(b"hello")
        until(client, b"length 5")


def test_long_answers_and_quiet_sockets_are_not_bounded(serve: Callable[..., int]) -> None:
    port = serve()
    with open_websocket(port) as page, opened(port) as client:
        client.sendall(GET.replace(b"/length", b"/long"))
        assert until(client, b"\r\n0\r\n\r\n").count(b"part ") == 4
        page.send("still here")
        assert page.recv(timeout=PATIENCE_S) == "still here"


def test_a_client_that_reads_nothing_does_not_hold_a_server_that_is_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polling, "SHUTDOWN_S", BOUND_S)
    with ExitStack() as stack, _served() as port:
        client = stack.enter_context(opened(port))
        client.sendall(GET.replace(b"/length", b"/endless"))
        until(client, b"200 OK")


def test_at_the_most_connections_the_one_that_waited_longest_for_its_request_makes_room(
    serve: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(polling, "HEADERS_S", 10 * PATIENCE_S)
    port = serve(most=4)
    with ExitStack() as stack:
        silent = [stack.enter_context(opened(port)) for _ in range(4)]
        for client in silent:
            client.sendall(b"G")
        assert b"length 0" in asked(port)
        assert rest(silent[0]) == b"", "the first of them made room"
        silent[3].sendall(GET[1:])
        until(silent[3], b"length 0")


def test_where_all_connections_are_in_use_another_one_is_refused(serve: Callable[..., int]) -> None:
    port = serve(most=3)
    with ExitStack() as stack:
        pages = [stack.enter_context(open_websocket(port)) for _ in range(3)]
        assert b"503 Service Unavailable" in asked(port).partition(b"\r\n")[0]
        pages[0].close()
        wait_until(lambda: b"length 0" in asked(port), "there is room again")
        pages[1].send("as before")
        assert pages[1].recv(timeout=PATIENCE_S) == "as before"
