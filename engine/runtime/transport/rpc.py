"""All of torch.distributed.rpc: join, ask, serve, leave, each with a deadline. TensorPipe is in maintenance mode, so
nothing else may call it.

Ranks meet through a file and talk over the loopback interface alone: RPC runs whatever function it is sent.
"""

import os
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.distributed import autograd, rpc
from torch.futures import Future

from engine.errors import PeerLost, RunFailed
from engine.runtime.rank.rank import Rank
from engine.runtime.transport import rendezvous
from engine.runtime.transport.request_reply import START_S, Answer, Exchange, Request, Service
from engine.system.network_isolation import check_listening
from engine.system.open_files import raise_open_files

THREADS, THREADS_FOR_SMALL = 2, 1
"""Threads that handle calls, and complete those of our own. Handlers never wait, and more threads only fight for
Python's lock: for large vectors, copied without that lock, 2 take a third more pushes than 4; for small ones 1 takes a
third more than 2. A handler that waits for a call needs 2.
"""
PUBLISHED_THREADS = 16
"""What torch gives a process that asks for nothing, as the tutorial of batched REINFORCE does."""
SHUTDOWN_S = 5.0
_joined = 0
DeviceMaps = dict[str, dict[torch.device, torch.device]]
"""By role: which device of ours goes to which of theirs; without an entry, only tensors of the CPU may travel."""


@contextmanager
def joined(
    rank: Rank, patience_s: float, device_maps: DeviceMaps | None = None, threads: int = THREADS
) -> Iterator[None]:
    """Be a member of the run's RPC group, under the rank's role, for the block; may be nested. Raises RunFailed where
    others do not come.

    A call waits `patience_s` for its answer.

    On the way out a rank leaves when all that still live have come to leave, and within `SHUTDOWN_S` whatever the
    others do.
    """
    global _joined
    if _joined == 0:
        check_listening()
        _within(
            START_S,
            lambda: _join(rank, patience_s, device_maps or {}, threads),
            f"{rank.role} did not find all {rank.world} ranks by RPC within {START_S:.0f} s.",
        )
    _joined += 1
    try:
        yield
    finally:
        _joined -= 1
        if _joined == 0:
            _leave(rank)


def _join(rank: Rank, patience_s: float, device_maps: DeviceMaps, threads: int) -> None:
    os.environ["TP_SOCKET_IFNAME"] = os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    raise_open_files()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that TensorPipe is in maintenance mode
        options = rpc.TensorPipeRpcBackendOptions(
            num_worker_threads=threads,
            rpc_timeout=patience_s,
            init_method=rendezvous.address(rank, "rpc"),
            device_maps=device_maps,  # type: ignore[arg-type]
        )
        rpc.init_rpc(rank.role, rank=rank.index, world_size=rank.world, rpc_backend_options=options)  # type: ignore[no-untyped-call]


def _leave(rank: Rank) -> None:
    def leave() -> None:
        rpc.shutdown(graceful=False)

    _attempt(SHUTDOWN_S, leave)


def _within(seconds: float, act: Callable[[], None], sentence: str) -> None:
    """Call `act` and raise its failure, or RunFailed with `sentence` where it takes longer."""
    failures: list[BaseException] = []

    def attempt() -> None:
        try:
            act()
        except BaseException as failure:
            failures.append(failure)

    if not _attempt(seconds, attempt):
        raise RunFailed(sentence)
    if failures:
        raise RunFailed(f"{sentence.rstrip('.')}: {failures[0]}.") from failures[0]


def _attempt(seconds: float, act: Callable[[], None]) -> bool:
    """Call `act` in a thread; return whether it ended in time. What hangs past that ends with the process."""
    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    thread.join(seconds)
    return not thread.is_alive()


def call(role: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call `function` in the rank of that role and wait for its result; raises PeerLost where that rank is gone."""
    try:
        return rpc.rpc_sync(role, function, args=arguments)
    except RuntimeError as error:
        raise PeerLost(f"{role} did not answer: {str(error).splitlines()[0]}") from error


def call_async(role: str, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
    """Call `function` in the rank of that role and return a future of its result."""
    future: Future[Any] = rpc.rpc_async(role, function, args=arguments)
    return future


def result_of(role: str, future: Future[Any]) -> Any:
    """Wait for what a call of that role returned; raises PeerLost where that rank is gone."""
    try:
        return future.wait()
    except RuntimeError as error:
        raise PeerLost(f"{role} did not answer: {str(error).splitlines()[0]}") from error


def reference_to(value: object) -> Any:
    """Return a remote reference (RRef) to an object of this rank, as the tutorials pass them about."""
    return rpc.RRef(value)


def remote(role: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call `function` in the rank of that role and return a remote reference (RRef) to its result at once."""
    return rpc.remote(role, function, args=arguments)


@contextmanager
def gradients() -> Iterator[int]:
    """Record, for the block, what remote calls compute of each other's results; yields the number by which all ranks
    know it.
    """
    with autograd.context() as number:
        yield number


def backward(number: int, loss: Tensor) -> None:
    """Compute the gradients of `loss` in all ranks that had a part in it; each keeps its own, by that number. Raises
    PeerLost.
    """
    try:
        autograd.backward(number, [loss])  # type: ignore[attr-defined]
    except RuntimeError as error:
        raise PeerLost(f"The backward broke off: {str(error).splitlines()[0]}") from error


def distributed_sgd(parameters: list[Any], learning_rate: float, momentum: float) -> Any:
    """Return torch's optimizer of parameters that lie in other ranks, given as references; `step(number)` makes each
    rank take its step.
    """
    from torch.distributed.optim import DistributedOptimizer  # it takes a second to import

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it is deprecated
        return DistributedOptimizer(torch.optim.SGD, parameters, lr=learning_rate, momentum=momentum)  # type: ignore[no-untyped-call]


def answered_later(function: Callable[..., Future[Any]]) -> Callable[..., Future[Any]]:
    """Make a function, when called by RPC, answer with what its future is given, and no thread wait for it."""
    marked: Callable[..., Future[Any]] = rpc.functions.async_execution(function)  # type: ignore[no-untyped-call]
    return marked


# ---- the exchange over RPC -----------------------------------------------------------------------------------------

SMALL = 4096
"""Vectors of up to so many float32 numbers travel inside the message as bytes: a tensor's own way costs several times
what it carries.
"""
_served: list["_Served"] = []
"""What this process serves; filled before any client can ask."""


class _Served:
    def __init__(self, service: Service, exchange: Exchange) -> None:
        self.service = service
        self._wire = exchange.wire_type
        self._device = exchange.client_device
        self._small = _is_small(exchange)
        self._sent: tuple[int, int] | None = None
        self._copy: Tensor | None = None

    def packed(self, version: int, vector: Tensor) -> Tensor | bytes:
        """Return a copy that nobody writes to: TensorPipe reads it after the handler has returned. Those who wait for
        one version share one.
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
    """Hand a question to the service; its future is answered when the handler responds, and no thread waits
    for that.
    """
    future: Future[Any] = Future()
    served = _served[0]

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
    """A client's line: one RPC a question."""

    def __init__(self, exchange: Exchange, device: torch.device, count: Callable[[int], None]) -> None:
        self.outgoing = torch.zeros(exchange.size, device=device)
        self.incoming = torch.zeros(exchange.size, device=device)
        self._wire = exchange.wire_type
        self._server = exchange.server_role
        self._peer = rpc.get_worker_info(exchange.server_role)
        self._small = _is_small(exchange) and device.type == "cpu"
        self._count = count

    def ask(self, request: Request, *, send: bool = True) -> Answer:
        vector: Tensor | bytes | None = None
        if send:
            vector = self.outgoing.numpy().tobytes() if self._small else self.outgoing.to(self._wire)
        try:
            answer, reply = rpc.rpc_sync(self._peer, _receive, args=(tuple(request), vector))
        except RuntimeError as error:
            raise PeerLost(f"{self._server} did not answer: {str(error).splitlines()[0]}") from error
        if answer is None:
            raise PeerLost(f"{self._server} failed: {reply}")
        if isinstance(reply, bytes):
            reply = torch.frombuffer(bytearray(reply), dtype=torch.float32)
        if reply is not None:
            self.incoming.copy_(reply)
        self._count(send + (reply is not None))
        return Answer(*answer)


@contextmanager
def serve(exchange: Exchange, rank: Rank, service: Service) -> Iterator[None]:
    """Answer the exchange's questions by RPC for the block."""
    _served[:] = [_Served(service, exchange)]
    try:
        with joined(rank, exchange.patience_s, threads=_threads(exchange)):
            yield
    finally:
        _served.clear()


@contextmanager
def connect(exchange: Exchange, rank: Rank) -> Iterator[RpcLine]:
    """Open this rank's line for the block; its vectors are on the rank's GPU where the server has one too, on the CPU
    otherwise.
    """
    theirs = torch.device(exchange.server_device)
    direct = rank.device.type == theirs.type == "cuda"
    maps = {exchange.server_role: {rank.device: theirs}} if direct else None
    with joined(rank, exchange.patience_s, maps, _threads(exchange)):
        yield RpcLine(exchange, rank.device if direct else torch.device("cpu"), exchange.counting(rank))
