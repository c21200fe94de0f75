"""All of torch.distributed.rpc: join, call and leave, each with a deadline, and the exchange, one call per request.
TensorPipe is in maintenance mode, so nothing else may use it.

Ranks meet through a file and use only the loopback interface: RPC runs any function it receives.
"""

import ctypes
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.distributed import autograd, rpc
from torch.futures import Future

from engine.errors import PeerLost, RunFailed
from engine.runtime.rank.rank import Rank
from engine.runtime.transport import rendezvous
from engine.runtime.transport.request_reply import START_S, Answer, Exchange, Request, Service
from engine.system.network_isolation import check_listening
from engine.system.processes import raise_open_files
from engine.trace.layout import EVERYBODY

THREADS, THREADS_FOR_SMALL = 2, 1
"""Threads that handle calls and complete our own. Handlers never wait, and more threads only compete for Python's
global lock: for large vectors, copied without that lock, 2 handle a third more pushes than 4; for small ones 1 handles
a third more than 2. A handler that waits for a call needs 2.
"""
PUBLISHED_THREADS = 16
"""torch's default number of threads, as the tutorial of batched REINFORCE uses."""
SHUTDOWN_S = 5.0
_joined = 0
DeviceMaps = dict[str, dict[torch.device, torch.device]]
"""By role: the mapping of our devices to theirs; without an entry, only CPU tensors can be sent."""


_keeping: list[threading.Barrier] = []
"""Where the handler threads of this process meet in `keep_thread_states`."""


@contextmanager
def joined(
    rank: Rank, patience_s: float, device_maps: DeviceMaps | None = None, threads: int = THREADS
) -> Iterator[None]:
    """Join the run's RPC group, under the rank's role, for the block; may be nested. Raises RunFailed if others do not
    join.

    A call waits `patience_s` for its answer.

    On exit a rank leaves when all live ranks are leaving, and within `SHUTDOWN_S` in any case.
    """
    global _joined
    if _joined == 0:
        check_listening()
        with rank.recorder.operation("barrier", "join RPC", peer=EVERYBODY):
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


def keep_thread_states(rank: Rank, threads: int) -> None:
    """Make each of this rank's handler threads keep its Python thread state; call in the `joined` block.

    Without this torch makes and frees one whenever such a thread enters Python: three times in a call, with a mapping
    of memory each, which takes longer than the rest of a small call.
    """
    _keeping[:] = [threading.Barrier(threads)]
    for future in [call_async(rank.role, _keep_thread_state) for _ in range(threads)]:
        result_of(rank.role, future)


def _keep_thread_state() -> None:
    ctypes.pythonapi.PyGILState_Ensure()  # never released: torch frees a state that nobody else holds
    _keeping[0].wait(START_S)  # so that every thread handles one of these calls


def _join(rank: Rank, patience_s: float, device_maps: DeviceMaps, threads: int) -> None:
    rendezvous.use_interface(rank)
    raise_open_files()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warning that TensorPipe is in maintenance mode
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
    """Call `act` and raise its failure, or RunFailed with `sentence` on a timeout."""
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
    """Call `act` in a thread; return whether it ended in time. A thread that hangs longer ends with the process."""
    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    thread.join(seconds)
    return not thread.is_alive()


def call(role: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call `function` in the rank of that role and wait for its result; raises PeerLost if that rank is gone."""
    try:
        return rpc.rpc_sync(role, function, args=arguments)
    except RuntimeError as error:
        raise PeerLost(f"{role} did not answer: {str(error).splitlines()[0]}") from error


def call_async(role: str, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
    """Call `function` in the rank of that role and return a future of its result."""
    future: Future[Any] = rpc.rpc_async(role, function, args=arguments)
    return future


def result_of(role: str, future: Future[Any]) -> Any:
    """Wait for the result of a call to that role; raises PeerLost if that rank is gone."""
    try:
        return future.wait()
    except RuntimeError as error:
        raise PeerLost(f"{role} did not answer: {str(error).splitlines()[0]}") from error


def reference_to(value: object) -> Any:
    """Return a remote reference (RRef) to an object of this rank, as the tutorials use them."""
    return rpc.RRef(value)


def remote(role: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call `function` in the rank of that role and return a remote reference (RRef) to its result at once."""
    return rpc.remote(role, function, args=arguments)


@contextmanager
def gradients() -> Iterator[int]:
    """Record the dependencies between results of remote calls for the block; yields the context id shared by all
    ranks.
    """
    with autograd.context() as number:
        yield number


def backward(number: int, loss: Tensor) -> None:
    """Compute the gradients of `loss` in all ranks involved; each keeps its own under the context id. Raises
    PeerLost.
    """
    try:
        autograd.backward(number, [loss])  # type: ignore[attr-defined]
    except RuntimeError as error:
        raise PeerLost(f"The backward failed: {str(error).splitlines()[0]}") from error


def distributed_sgd(parameters: list[Any], learning_rate: float, momentum: float) -> Any:
    """Return torch's optimizer of remote parameters, given as references; `step(number)` makes each rank take its
    step.
    """
    from torch.distributed.optim import DistributedOptimizer  # it takes a second to import

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warning that it is deprecated
        return DistributedOptimizer(torch.optim.SGD, parameters, lr=learning_rate, momentum=momentum)  # type: ignore[no-untyped-call]


def answered_later(function: Callable[..., Future[Any]]) -> Callable[..., Future[Any]]:
    """Make a function called by RPC answer with the result of its future, without a waiting thread."""
    marked: Callable[..., Future[Any]] = rpc.functions.async_execution(function)  # type: ignore[no-untyped-call]
    return marked


# ---- The exchange, one call per request ----------------------------------------------------------------------------

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
