"""The exchange over gloo: one group of two ranks per client, so that a death breaks no other connection."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor
from torch.distributed import PrefixStore, ProcessGroupGloo  # type: ignore[attr-defined]

from engine.errors import PeerLost
from engine.runtime.rank.rank import Rank
from engine.runtime.transport.rendezvous import store_of, use_interface
from engine.runtime.transport.request_reply import START_S, Answer, Exchange, Request, Service
from engine.system.network_isolation import check_listening

LONG = timedelta(days=7)
"""A server waits for the next request as long as the run lasts: slow clients are handled by the method."""
SERVER, CLIENT = 0, 1


def _pair(rank: Rank, exchange: Exchange, client: int, me: int, timeout: timedelta) -> Any:
    """Return the group of the server and one client; both ends call this and wait for each other."""
    check_listening()
    use_interface(rank)
    store: Any = PrefixStore(f"line{client}", store_of(rank, "lines"))
    store.set_timeout(timedelta(seconds=START_S))
    return ProcessGroupGloo(store, me, 2, timeout)


class GlooLine:
    """A client's connection: a header of numbers and a vector each way."""

    def __init__(self, exchange: Exchange, group: Any, count: Callable[[int], None]) -> None:
        self.outgoing = torch.zeros(exchange.size)
        self.incoming = torch.zeros(exchange.size)
        self._server = exchange.server_role
        self._group = group
        self._count = count
        self._head = torch.zeros(6, dtype=torch.int64)
        self._wire = torch.zeros(exchange.size, dtype=exchange.wire_type) if exchange.wire != "float32" else None

    def ask(self, request: Request, *, send: bool = True) -> Answer:
        self._head.copy_(torch.tensor([*request, send]))
        try:
            self._group.send([self._head], SERVER, 0).wait()
            if send:
                self._group.send([self._on_the_wire()], SERVER, 1).wait()
            self._group.recv([self._head], SERVER, 2).wait()
            *answer, sent = self._head.tolist()
            if sent:
                self._group.recv([self.incoming if self._wire is None else self._wire], SERVER, 3).wait()
        except RuntimeError as error:
            raise PeerLost(f"{self._server} did not answer: {str(error).splitlines()[0]}") from error
        if sent and self._wire is not None:
            self.incoming.copy_(self._wire)
        self._count(send + sent)
        return Answer(*answer)

    def _on_the_wire(self) -> Tensor:
        return self.outgoing if self._wire is None else self._wire.copy_(self.outgoing)


class _Desk:
    """The server's end of one connection: a thread that reads a request, passes it on, and sends the answer when there
    is one.
    """

    def __init__(self, exchange: Exchange, group: Any, service: Service, client: int) -> None:
        self._group = group
        self._service = service
        self._head = torch.zeros(6, dtype=torch.int64)
        self._question = torch.zeros(exchange.size, dtype=exchange.wire_type)
        self._reply = torch.zeros(exchange.size, dtype=exchange.wire_type)
        self._answered = threading.Event()
        self._answer: tuple[int, ...] = ()
        threading.Thread(target=self._serve, name=f"line{client}", daemon=True).start()

    def _serve(self) -> None:
        try:
            while True:
                self._group.recv([self._head], CLIENT, 0).wait()
                *request, sent = self._head.tolist()
                if sent:
                    self._group.recv([self._question], CLIENT, 1).wait()
                self._answered.clear()
                self._service.handle(Request(*request), self._question if sent else None, self._respond)
                self._answered.wait()
                self._group.send([torch.tensor(self._answer)], CLIENT, 2).wait()
                if self._answer[-1]:
                    self._group.send([self._reply], CLIENT, 3).wait()
        except BaseException:
            return  # the client has left or died, or the handler failed, which the service records

    def _respond(self, answer: Answer, vector: Tensor | None) -> None:
        if vector is not None:
            self._reply.copy_(vector)
        self._answer = (*answer, int(vector is not None))
        self._answered.set()


@contextmanager
def serve(exchange: Exchange, rank: Rank, service: Service) -> Iterator[None]:
    """Answer the exchange's requests for the block: one thread per client."""
    groups: list[Any] = []

    def open_lines() -> None:
        for client in exchange.clients:
            groups.append(_pair(rank, exchange, client, SERVER, LONG))
            _Desk(exchange, groups[-1], service, client)

    opening = threading.Thread(
        target=open_lines, daemon=True
    )  # a server that is also a client must be free to open the other end
    opening.start()
    if rank.index not in exchange.clients:
        opening.join()
    yield


@contextmanager
def connect(exchange: Exchange, rank: Rank) -> Iterator[GlooLine]:
    """Open this rank's connection for the block."""
    yield GlooLine(
        exchange,
        _pair(rank, exchange, rank.index, CLIENT, timedelta(seconds=exchange.patience_s)),
        exchange.counting(rank),
    )
