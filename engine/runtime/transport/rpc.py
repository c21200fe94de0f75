"""The exchange over RPC (engine/runtime/transport/rpc_group.py), one call per request."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.distributed import rpc
from torch.futures import Future

from engine.errors import PeerLost
from engine.runtime.rank.rank import Rank
from engine.runtime.transport.request_reply import Answer, Exchange, Request, Service
from engine.runtime.transport.rpc_group import THREADS, THREADS_FOR_SMALL, answered_later, joined, keep_thread_states

SMALL = 4096
"""Vectors of up to this many float32 values are sent inside the message as bytes: sending them as tensors costs several
times more.
"""
_served: list["_Served"] = []
"""The service of this process; set before any client can send a request."""


class _Served:
    def __init__(self, service: Service, exchange: Exchange) -> None:
        self.service = service
        self._wire = exchange.wire_type
        self._device = exchange.client_device
        self._small = _is_small(exchange)
        self._sent: tuple[int, int] | None = None
        self._copy: Tensor | None = None

    def future(self) -> Future[Any]:
        """Return an unset future for an answer; torch refuses a GPU's tensor in one that doesn't name the GPU."""
        return Future(devices=[self._device] if self._device.type == "cuda" else None)

    def packed(self, version: int, vector: Tensor) -> Tensor | bytes:
        """Return an immutable copy: TensorPipe reads it after the handler has returned. Waiters for one version share
        one copy.
        """
        if self._small:
            return vector.numpy().tobytes()
        key = (version, vector.data_ptr())
        if self._sent != key or self._copy is None:
            self._copy, self._sent = vector.detach().to(self._device, self._wire, copy=True), key
        return self._copy


def _is_small(exchange: Exchange) -> bool:
    return exchange.size <= SMALL and exchange.wire == "float32" and exchange.server_device == "cpu"


def _threads(exchange: Exchange) -> int:
    return THREADS_FOR_SMALL if _is_small(exchange) else THREADS


@answered_later
def _receive(request: tuple[int, ...], vector: Tensor | bytes | None) -> Future[Any]:
    """Pass a request to the service; its future completes when the handler responds, and no thread waits."""
    served = _served[0]
    future = served.future()

    def send(answer: Answer, reply: Tensor | None) -> None:
        future.set_result((tuple(answer), None if reply is None else served.packed(answer.version, reply)))

    if isinstance(vector, bytes):
        vector = torch.frombuffer(bytearray(vector), dtype=torch.float32)
    try:
        served.service.handle(Request(*request), vector, send)
    except BaseException as failure:
        if not future.done():
            future.set_result((None, str(failure)))  # set_exception arrives as a result that can't be told from one
    return future


class RpcLine:
    """A client's connection: one RPC per request."""

    def __init__(self, exchange: Exchange, device: torch.device, count: Callable[[int], None]) -> None:
        self.outgoing = torch.zeros(exchange.size, device=device)
        self.incoming = torch.zeros(exchange.size, device=device)
        self._wire = exchange.wire_type
        self._server = exchange.server_role
        self._peer = rpc.get_worker_info(exchange.server_role)
        self._small = _is_small(exchange) and device.type == "cpu"
        if self._small:  # their memory for NumPy, which runs far less code for a copy than torch: it is rarely in cache
            self._small_outgoing, self._small_incoming = self.outgoing.numpy(), self.incoming.numpy()
        self._count = count

    def ask(self, request: Request, *, send: bool = True) -> Answer:
        vector: Tensor | bytes | None = None
        if send:
            vector = self._small_outgoing.tobytes() if self._small else self.outgoing.to(self._wire)
        try:
            answer, reply = rpc.rpc_sync(self._peer, _receive, args=(tuple(request), vector))
        except RuntimeError as error:
            raise PeerLost(f"{self._server} did not answer: {str(error).splitlines()[0]}") from error
        if answer is None:
            raise PeerLost(f"{self._server} failed: {reply}")
        if isinstance(reply, bytes):
            self._small_incoming[:] = np.frombuffer(reply, np.float32)
        elif reply is not None:
            self.incoming.copy_(reply)
        self._count(send + (reply is not None))
        return Answer(*answer)


@contextmanager
def serve(exchange: Exchange, rank: Rank, service: Service) -> Iterator[None]:
    """Answer the exchange's requests by RPC for the block."""
    _served[:] = [_Served(service, exchange)]
    try:
        with joined(rank, exchange.patience_s, threads=_threads(exchange)):
            keep_thread_states(rank, _threads(exchange))
            yield
    finally:
        _served.clear()


@contextmanager
def connect(exchange: Exchange, rank: Rank) -> Iterator[RpcLine]:
    """Open this rank's connection for the block; its vectors are on the rank's GPU if the server has one too, on the
    CPU otherwise.
    """
    theirs = torch.device(exchange.server_device)
    direct = rank.device.type == theirs.type == "cuda"
    maps = {exchange.server_role: {rank.device: theirs}} if direct else None
    with joined(rank, exchange.patience_s, maps, _threads(exchange)):
        keep_thread_states(rank, _threads(exchange))
        yield RpcLine(exchange, rank.device if direct else torch.device("cpu"), exchange.counting(rank))
