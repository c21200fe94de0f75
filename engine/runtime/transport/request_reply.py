"""Requests and answers between a server rank and its clients, each with one vector, on any transport.

The worker makes an `Exchange` and passes it to all ranks. In the serving rank:

    with exchange.serve(rank, handler) as service:
        while ...: service.check()          # raises a handler's failure; sleep, test, monitor members

In each client (the serving rank may be one too, inside its `serve` block):

    with exchange.connect(rank) as line:
        line.outgoing.copy_(...)            # float32 [size]
        answer = line.ask(Request(rank.index, PUSH, step))      # blocks; the answer's vector is in line.incoming

`handler(request, vector, respond)` is called for each request, from several threads at once, and must not block: it may
keep `respond` and call it later, from any thread, with an answer and the vector to send. The vector is read before
`respond` returns.
"""

import importlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

import torch
from torch import Tensor

from engine.recorder import Recorder
from engine.runtime.rank.rank import Rank

# ------------------------------------------------------------------------------------------------------------------
# Track which of a server's clients have closed their connection: a server that exits first would cut off its last
# answers.

GOODBYE_S = 2.0
"""Seconds that a finished server waits for clients to close their connections; a stopped one never does."""


@dataclass(frozen=True)
class Disconnects:
    """The clients, by rank index; passed to the ranks as an argument of `Ranks.run`."""

    clients: tuple[int, ...]
    said: Tensor = field(default_factory=lambda: torch.zeros(0))
    """uint8 [clients] in shared memory."""

    @classmethod
    def create(cls, clients: tuple[int, ...]) -> "Disconnects":
        """Return a list without departures."""
        return cls(clients, torch.zeros(len(clients), dtype=torch.uint8).share_memory_())  # type: ignore[no-untyped-call]

    @contextmanager
    def at_exit(self, rank: Rank) -> Iterator[None]:
        """Mark this client as departed at the end of the block."""
        try:
            yield
        finally:
            self.said[self.clients.index(rank.index)] = 1

    def wait(self, rank: Rank) -> None:
        """Wait briefly until every client has left or is gone."""
        deadline = time.monotonic() + GOODBYE_S
        while time.monotonic() < deadline:
            said, gone = self.said.tolist(), rank.gone()
            if all(said[place] or client in gone for place, client in enumerate(self.clients)):
                return
            time.sleep(0.002)


# ---- Request reply -------------------------------------------------------------------------------------------------

Transport = Literal["rpc", "shared_memory"]
Wire = Literal["float32", "bf16"]
TYPES = {"float32": torch.float32, "bf16": torch.bfloat16}
START_S = 60.0
"""Timeout for ranks when connections open."""


class Request(NamedTuple):
    """A client's request: integers, whose meaning the method defines."""

    client: int
    kind: int
    step: int = 0
    version: int = 0
    samples: int = 0


class Answer(NamedTuple):
    """The server's answer besides the vector; `held_ns` is set by the exchange: how long the answer was delayed."""

    version: int = 0
    staleness: int = 0
    samples: int = 0
    note: int = 0
    held_ns: int = 0


Respond = Callable[[Answer, Tensor | None], None]
Handler = Callable[[Request, Tensor | None, Respond], None]


class ClientLink(Protocol):
    """A client's connection to the server. `outgoing` and `incoming` are float32 [size]; with shared memory both ends
    share them.
    """

    outgoing: Tensor
    incoming: Tensor

    def ask(self, request: Request, *, send: bool = True) -> Answer:
        """Send the request (with `outgoing` if `send`) and wait for the answer; its vector, if any, is in `incoming`
        then.

        Raises PeerLost if the server is gone or does not answer within `Exchange.patience_s`.
        """


class Service:
    """The server's side: keeps the first failure of a handler for the rank's main thread."""

    def __init__(self, handler: Handler, record: Recorder) -> None:
        self._handler = handler
        self._record = record
        self._failure: BaseException | None = None

    def handle(self, request: Request, vector: Tensor | None, send: Callable[[Answer, Tensor | None], None]) -> None:
        """Call the handler; its answer goes to `send` with the time for which it was held. A failure is recorded and
        raised.
        """
        arrived = time.monotonic_ns()

        def respond(answer: Answer, reply: Tensor | None) -> None:
            self._record.note(
                "send",
                "answer",
                peer=request.client,
                number=request.step,
                version=answer.version,
                value=answer.staleness,
            )
            send(Answer(*answer[:-1], time.monotonic_ns() - arrived), reply)

        try:
            with self._record.operation("serve", "request", peer=request.client, number=request.step):
                self._handler(request, vector, respond)
        except BaseException as failure:
            self._failure = self._failure or failure
            raise

    def check(self) -> None:
        """Raise the first failure of a handler, if any."""
        if self._failure is not None:
            raise self._failure


@dataclass(frozen=True)
class Exchange:
    """One server and its clients, by rank index; passed to the ranks as an argument of `Ranks.run`."""

    transport: Transport
    size: int
    """Size of one vector."""
    server: int
    server_role: str
    clients: tuple[int, ...]
    patience_s: float = 130.0
    """Timeout of a client for an answer."""
    wire: Wire = "float32"
    server_device: str = "cpu"
    """The device of the server's vectors; over RPC GPU clients send to it directly, everything else goes through the
    CPU.
    """
    goodbyes: Disconnects = field(default_factory=lambda: Disconnects(()))
    boards: Tensor | None = None
    """For shared memory: [clients, 2, size], a pair of vectors for each client."""

    @classmethod
    def create(
        cls,
        transport: Transport,
        size: int,
        *,
        server: int,
        server_role: str,
        clients: tuple[int, ...],
        patience_s: float = 130.0,
        wire: Wire = "float32",
        server_device: str = "cpu",
    ) -> "Exchange":
        """Return an exchange to pass to ranks; raises DataError if shared memory is too small for its vectors."""
        boards = None
        if transport == "shared_memory":
            from engine.data.tensors import check_room, shared_zeros

            check_room("The exchange of weights and gradients", len(clients) * 2 * size * TYPES[wire].itemsize)
            boards = shared_zeros(len(clients), 2, size, dtype=TYPES[wire])
        return cls(
            transport,
            size,
            server,
            server_role,
            clients,
            patience_s,
            wire,
            server_device,
            Disconnects.create(clients),
            boards,
        )

    @property
    def client_device(self) -> torch.device:
        """The device that the server sends from: its GPU if RPC sends from it directly, the CPU otherwise."""
        return torch.device(self.server_device if self.transport == "rpc" else "cpu")

    @property
    def vector_bytes(self) -> int:
        """Bytes of one vector in transit."""
        return self.size * self.wire_type.itemsize

    def counting(self, rank: Rank) -> Callable[[int], None]:
        """Return the function that counts the vectors of a request and its answer; vectors of the server to itself are
        not counted.
        """
        if rank.index == self.server:
            return lambda vectors: None
        record, size = rank.recorder, self.vector_bytes
        return lambda vectors: record.exchanged(vectors * size)

    @property
    def wire_type(self) -> torch.dtype:
        """The data type in transit."""
        return TYPES[self.wire]

    @contextmanager
    def serve(self, rank: Rank, handler: Handler) -> Iterator[Service]:
        """Answer requests for the block; at its end, wait briefly until the clients have received their last
        answers.
        """
        service = Service(handler, rank.recorder)
        with self._carrier().serve(self, rank, service):
            yield service
            self.goodbyes.wait(rank)

    @contextmanager
    def connect(self, rank: Rank) -> Iterator[ClientLink]:
        """Open this rank's connection to the server for the block."""
        with self.goodbyes.at_exit(rank), self._carrier().connect(self, rank) as line:
            yield line

    def _carrier(self) -> Any:
        """Return the module that implements this transport: rpc or shared_memory."""
        return importlib.import_module(f"engine.runtime.transport.{self.transport}")
