"""The exchange through shared memory: vectors are not sent, and a socket in the run's folder signals each request.

A connection breaks when its process dies, because the kernel closes the socket.
"""

import os
import selectors
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import torch
from torch import Tensor

from engine.errors import PeerLost
from engine.runtime.rank.rank import Rank
from engine.runtime.transport.request_reply import START_S, Answer, Exchange, Request, Service

HEAD = struct.Struct("<6q")
OUT, IN = 0, 1
"""Indices of a client's two vectors."""


@contextmanager
def _address(folder: Path) -> Iterator[str]:
    """Yield the socket's path, short enough (108 bytes) for any depth of the folder."""
    path = folder / "bell"
    if len(os.fsencode(path)) < 100 or not Path("/proc/self/fd").is_dir():
        yield str(path)
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        yield f"/proc/self/fd/{descriptor}/bell"
    finally:
        os.close(descriptor)


class SharedLine:
    """A client's connection: `outgoing` and `incoming` are the memory that the server reads and writes (copies of it if
    the wire is bf16).
    """

    def __init__(self, exchange: Exchange, index: int, bell: socket.socket, count: Callable[[int], None]) -> None:
        assert exchange.boards is not None
        self._board = exchange.boards[exchange.clients.index(index)]
        self._narrow = exchange.wire != "float32"
        self.outgoing = torch.zeros(exchange.size) if self._narrow else self._board[OUT]
        self.incoming = torch.zeros(exchange.size) if self._narrow else self._board[IN]
        self._server = exchange.server_role
        self._bell = bell
        self._count = count

    def ask(self, request: Request, *, send: bool = True) -> Answer:
        if send and self._narrow:
            self._board[OUT].copy_(self.outgoing)
        try:
            self._bell.sendall(HEAD.pack(*request, send))
            *answer, sent = HEAD.unpack(_read(self._bell))
        except (OSError, EOFError) as error:
            raise PeerLost(f"{self._server} did not answer: {str(error) or type(error).__name__}") from error
        if sent and self._narrow:
            self.incoming.copy_(self._board[IN])
        self._count(send + sent)
        return Answer(*answer)


def _read(bell: socket.socket) -> bytes:
    found = bell.recv(HEAD.size, socket.MSG_WAITALL)
    if len(found) < HEAD.size:
        raise EOFError("its connection is closed")
    return found


@contextmanager
def serve(exchange: Exchange, rank: Rank, service: Service) -> Iterator[None]:
    """Answer the exchange's requests for the block: one thread for all clients."""
    with socket.socket(socket.AF_UNIX) as door, _address(rank.folder) as path:
        (rank.folder / "bell").unlink(missing_ok=True)
        door.bind(path)
        door.listen(len(exchange.clients))
        closing, closed = socket.socketpair()
        answering = threading.Thread(
            target=_answer_all, args=(exchange, door, closed, service), name="lines", daemon=True
        )
        answering.start()
        try:
            yield
        finally:
            closing.close()
            answering.join(1.0)


def _answer_all(exchange: Exchange, door: socket.socket, closed: socket.socket, service: Service) -> None:
    lines: list[socket.socket] = []
    with selectors.DefaultSelector() as ready, closed:
        for each in (door, closed):
            ready.register(each, selectors.EVENT_READ)
        with suppress(_Closed):
            while True:
                for key, _ in ready.select():
                    assert isinstance(key.fileobj, socket.socket)
                    if key.fileobj is closed:
                        raise _Closed
                    if key.fileobj is door:
                        lines.append(door.accept()[0])
                        ready.register(lines[-1], selectors.EVENT_READ)
                        continue
                    try:
                        _answer(exchange, key.fileobj, service)
                    except (OSError, EOFError):  # this client has left or died
                        ready.unregister(key.fileobj)
                        key.fileobj.close()
        for line in lines:
            line.close()


class _Closed(Exception):
    """The service is ending."""


def _answer(exchange: Exchange, bell: socket.socket, service: Service) -> None:
    assert exchange.boards is not None
    *request, sent = HEAD.unpack(_read(bell))
    board = exchange.boards[exchange.clients.index(request[0])]

    def send(answer: Answer, vector: Tensor | None) -> None:
        if vector is not None:
            board[IN].copy_(vector)
        with suppress(OSError):  # it died while waiting
            bell.sendall(HEAD.pack(*answer, vector is not None))

    try:
        service.handle(Request(*request), board[OUT] if sent else None, send)
    except BaseException as failure:
        raise _Closed from failure  # the service records it; this client sees a closed connection


@contextmanager
def connect(exchange: Exchange, rank: Rank) -> Iterator[SharedLine]:
    """Open this rank's connection for the block; waits until the server listens."""
    deadline = time.monotonic() + START_S
    with _address(rank.folder) as path:
        while True:
            bell = socket.socket(socket.AF_UNIX)
            bell.settimeout(exchange.patience_s)
            try:
                bell.connect(path)
                break
            except OSError as error:
                bell.close()
                if time.monotonic() > deadline:
                    raise PeerLost(
                        f"{exchange.server_role} did not open its connections within {START_S:.0f} s."
                    ) from error
                time.sleep(0.005)
    with bell:
        yield SharedLine(exchange, rank.index, bell, exchange.counting(rank))
