"""All of torch.distributed.rpc except the exchange's own call (rpc.py): join, call, leave, each with a deadline.
TensorPipe is in maintenance mode, so nothing else may use it.

Ranks meet through a file and use only the loopback interface: RPC runs any function it receives.
"""

import ctypes
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
from engine.runtime.transport.request_reply import START_S
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
