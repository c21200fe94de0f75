"""A mean over all ranks on any transport, and an attendance table that identifies the ranks that do not arrive.

The worker makes a `Collective` and passes it to all ranks. In each of them:

    with collective.join(rank) as circle:
        waited_s = circle.average(vector, "round 7")    # vector [size] is now the mean over all ranks

`over_gloo` implements it on gloo, `over_server` on RPC and shared memory. With transport "torch" the ranks are also
torch.distributed's default group for the block, as DistributedDataParallel, FSDP and device meshes require:

    with collective.join(rank) as circle:
        mesh = init_device_mesh(rank.device.type, (rank.world,))
        with circle.meeting("step 7", "all-gather"):    # names the ranks that don't arrive, for the trace and in errors
            distributed.all_gather_single(…)
"""

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from typing import Any, Literal

import psutil
import torch
from torch import Tensor, distributed
from torch.distributed import PrefixStore, ProcessGroupGloo  # type: ignore[attr-defined]

from engine.errors import PeerLost, RunFailed
from engine.recorder import Recorder
from engine.runtime.rank.rank import Rank
from engine.runtime.transport.rendezvous import address, store_of, use_interface
from engine.runtime.transport.request_reply import Answer, Exchange, Request, Respond
from engine.system.network_isolation import check_listening
from engine.trace.layout import EVERYBODY

Average = Callable[[Tensor], float | None]
"""Replaces a CPU vector by the mean over all ranks, and returns the seconds waited for the last one if these are known
without the attendance table, as on several nodes, whose clocks differ; raises PeerLost or RuntimeError if that fails or
times out.
"""
Transport = Literal["gloo", "rpc", "shared_memory", "torch"]
COUNT, PID, STAMPS = 0, 1, 2
"""Columns of the attendance table: barriers reached, process id, then the arrival time (ns) at the last even and the
last odd one.
"""


@dataclass(frozen=True)
class Collective:
    """All ranks of a run as a group that averages; passed to them as an argument of `Ranks.run`."""

    transport: Transport
    size: int
    """Size of one vector; 0 if the group averages none."""
    roles: tuple[str, ...]
    timeout_s: float
    attendance: Tensor
    """int64 [ranks, 4] in shared memory."""
    exchange: Exchange | None
    number: int = field(default_factory=count().__next__)
    """Tells the groups of a run apart where their ranks meet."""

    @classmethod
    def create(cls, transport: Transport, size: int, roles: tuple[str, ...], timeout_s: float) -> "Collective":
        """Return a group to pass to ranks, which averages vectors of `size` float32 values; a run may have several, for
        vectors of other sizes. Raises DataError if shared memory is too small for its vectors.
        """
        attendance = torch.zeros(len(roles), 4, dtype=torch.int64).share_memory_()  # type: ignore[no-untyped-call]
        exchange = None
        if transport in ("rpc", "shared_memory"):
            clients = tuple(range(len(roles)))
            exchange = Exchange.create(
                transport, size, server=0, server_role=roles[0], clients=clients, patience_s=timeout_s
            )
        return cls(transport, size, roles, timeout_s, attendance, exchange)

    @contextmanager
    def join(self, rank: Rank) -> Iterator["AveragingGroup"]:
        """Join the group for the block. Ranks meet at a barrier first, so that a slow start doesn't count as a
        timeout.
        """
        rank.barrier("here")
        averaging = {"gloo": over_gloo, "torch": over_torch}.get(self.transport, over_server)
        with averaging(self, rank) as average:
            yield AveragingGroup(self, rank.index, average, rank.recorder, is_spread=rank.meeting_point is not None)


class AveragingGroup:
    """One rank's membership in the group."""

    def __init__(
        self, collective: Collective, index: int, average: Average, record: Recorder, *, is_spread: bool = False
    ) -> None:
        self._collective = collective
        self._index = index
        self._average = average
        self._record = record
        self._attendance = collective.attendance.numpy()  # element access takes a tenth of a tensor's time
        self._attendance[index, PID] = os.getpid()
        self._count = 0
        self._staged = torch.empty(0)
        self._is_spread = is_spread
        self._waited_s: float | None = None

    def average(self, vector: Tensor, what: str) -> float:
        """Replace `vector` [size], on any device, by the mean over all ranks; return the seconds waited for the last
        one.

        Raises RunFailed with the names of the ranks that did not reach `what` in time, PeerLost if a rank is gone.
        """
        if vector.numel() != self._collective.size or vector.dtype != torch.float32:
            raise RunFailed(
                f"All ranks must average {self._collective.size} values of float32; "
                f"{self._collective.roles[self._index]} got {vector.numel()} of {str(vector.dtype)[6:]} in {what}."
            )
        with self.meeting(what):
            if vector.device.type == "cpu" or self._collective.transport == "torch":
                self._waited_s = self._average(vector)
            else:
                self._staged = vector.cpu()
                self._waited_s = self._average(self._staged)
                vector.copy_(self._staged)
        return self.waited_s()

    def jointly(self, operation: Callable[["GlooRing"], None], what: str) -> float:
        """Carry out an operation of several exchanges over gloo's ring, the same in all ranks; return the seconds
        waited for the last one. Raises as `average` does.
        """
        ring = self.ring
        assert ring, "other transports exchange one vector of a fixed size"
        with self.meeting(what):
            self._waited_s = ring.arrive()
            operation(ring)
        return self.waited_s()

    @property
    def ring(self) -> "GlooRing | None":
        """The rank's place in gloo's ring; None with other transports."""
        return self._average if isinstance(self._average, GlooRing) else None

    @contextmanager
    def meeting(self, what: str, operation: str = "average") -> Iterator[None]:
        """Record the arrival; if the block, a joint operation of all ranks, fails, name the ranks that did not reach
        `operation` of `what`. Every rank must make the same calls in the same order.
        """
        self._count += 1
        began = time.monotonic_ns()
        self._attendance[self._index, STAMPS + self._count % 2] = began
        self._attendance[self._index, COUNT] = self._count
        try:
            with self._record.operation("collective", operation, peer=EVERYBODY, number=self._count):
                yield
        except (torch.OutOfMemoryError, torch.AcceleratorError):  # of this rank's own GPU
            raise
        except (PeerLost, RuntimeError) as error:
            raise self._blame(f"{operation} of {what}", (time.monotonic_ns() - began) / 1e9, error) from error

    def waited_s(self) -> float:
        """Return the seconds between this rank's arrival and the last one's at the latest barrier."""
        return self.latest_s() - self._arrived_s()

    def latest_s(self) -> float:
        """Return the time (monotonic, s) at which the last rank reached the latest barrier.

        No rank can record two barriers ahead of this one, so the stamps are still valid. On several nodes, whose clocks
        differ, it is this rank's own arrival and what it waited.
        """
        if self._is_spread:
            return self._arrived_s() + (self._waited_s or 0.0)
        return float(self._attendance[:, STAMPS + self._count % 2].max()) / 1e9

    def _arrived_s(self) -> float:
        return float(self._attendance[self._index, STAMPS + self._count % 2]) / 1e9

    def _blame(self, what: str, after_s: float, error: Exception) -> RunFailed:
        if after_s < 0.9 * self._collective.timeout_s:
            return PeerLost(f"The {what} failed: {str(error).splitlines()[0]}")
        limit = f"within {self._collective.timeout_s:g} s"
        missing = [
            role for role, row in zip(self._collective.roles, self._attendance, strict=True) if row[COUNT] < self._count
        ]
        stopped = [
            role
            for role, row in zip(self._collective.roles, self._attendance, strict=True)
            if not self._is_spread and _is_stopped(int(row[PID]))  # a process id of another node means nothing here
        ]
        if missing:
            why = " It is stopped." if set(missing) <= set(stopped) else " If it is only slow, raise timeout_s."
            return RunFailed(f"{' and '.join(missing)} did not reach the {what} {limit}, while others waited.{why}")
        if stopped:
            return RunFailed(f"{' and '.join(stopped)} did not continue in the {what} {limit}: it is stopped.")
        return RunFailed(
            f"The {what} was not completed {limit}, although all ranks had reached it: {str(error).splitlines()[0]}"
        )


def gone_round(vector_bytes: int, ranks: int) -> int:
    """Return the bytes that each rank sends in a ring all-reduce of a vector: every part goes round twice, except for
    one rank.
    """
    return 2 * (ranks - 1) * vector_bytes // ranks


def _is_stopped(pid: int) -> bool:
    try:
        return pid != os.getpid() and psutil.Process(pid).status() in (
            psutil.STATUS_STOPPED,
            psutil.STATUS_TRACING_STOP,
        )
    except psutil.Error:
        return False


@contextmanager
def torch_group(rank: Rank, backend: Literal["gloo", "nccl"], timeout_s: float) -> Iterator[None]:
    """Join torch's own group of all ranks for the block, as DistributedDataParallel requires."""
    check_listening()
    if rank.device.type == "cuda":
        torch.cuda.set_device(rank.device)  # NCCL takes the current GPU where no tensor names one
    use_interface(rank)
    distributed.init_process_group(
        backend,
        init_method=address(rank, "group"),
        rank=rank.index,
        world_size=rank.world,
        timeout=timedelta(seconds=timeout_s),
    )
    yield
    distributed.destroy_process_group()  # after a failure the process exits at once: leaving would wait for the others


@contextmanager
def over_torch(collective: Collective, rank: Rank) -> Iterator[Average]:
    """Yield the function that averages a vector over torch's default group of all ranks, for the block."""

    def average(vector: Tensor) -> None:
        distributed.all_reduce(vector)
        vector.div_(rank.world)
        rank.recorder.exchanged(gone_round(vector.nbytes, rank.world))

    with torch_group(rank, backend_of(rank.context.devices), collective.timeout_s):
        yield average


def backend_of(devices: Sequence[str]) -> Literal["gloo", "nccl"]:
    """Return the backend of ranks on these devices: NCCL if each has a GPU of its own, which it requires."""
    return "nccl" if devices[0].startswith("cuda") and len(set(devices)) == len(devices) else "gloo"


# ---- The mean over gloo: a ring all-reduce without a server --------------------------------------------------------


@contextmanager
def over_gloo(collective: Collective, rank: Rank) -> Iterator[Average]:
    """Yield the function that averages a vector over all ranks, for the block."""
    check_listening()
    use_interface(rank)
    patience = timedelta(seconds=collective.timeout_s)
    store: Any = PrefixStore(f"ring {collective.number}", store_of(rank, "ring"))
    store.set_timeout(patience)
    with rank.recorder.operation("barrier", "join gloo", peer=EVERYBODY):
        group: Any = ProcessGroupGloo(store, rank.index, rank.world, patience)

    yield GlooRing(group, rank)


class GlooRing:
    """One rank's place in gloo's ring; an `Average`, and the operations for vectors of any size and type."""

    def __init__(self, group: Any, rank: Rank) -> None:
        self._group = group
        self._rank = rank
        self._arrival = torch.zeros(1)
        self.world = rank.world
        self.sent = self.messages = 0
        """Bytes and messages that this rank has sent."""

    def __call__(self, vector: Tensor) -> float | None:
        waited_s = self.arrive()
        self.mean(vector)
        return waited_s

    def arrive(self) -> float | None:
        """On several nodes, wait for the last rank and return the seconds; else they are known otherwise."""
        if not self._rank.meeting_point:
            return None
        began = time.monotonic()
        self.meet()
        return time.monotonic() - began

    def meet(self) -> None:
        """Wait for all ranks."""
        self._group.allreduce([self._arrival]).wait()

    def mean(self, vector: Tensor) -> None:
        """Replace a CPU vector by the mean over all ranks, computed in its own type."""
        self._group.allreduce([vector]).wait()
        vector.div_(self.world)
        self._count(gone_round(vector.nbytes, self.world), 2 * (self.world - 1))

    def gather(self, vector: Tensor) -> list[Tensor]:
        """Return the vectors of all ranks, which have the same size, in the ranks' order."""
        found = [torch.empty_like(vector) for _ in range(self.world)]
        self._group.allgather([found], [vector]).wait()
        self._count((self.world - 1) * vector.nbytes, self.world - 1)
        return found

    def _count(self, sent: int, messages: int) -> None:
        self.sent += sent
        self.messages += messages
        self._rank.recorder.exchanged(sent)


# ---- The mean on one of the ranks ----------------------------------------------------------------------------------
# All send it their vectors and get the mean back when the last one has arrived.


class Mean:
    """The server's handler: keeps the vectors separate, so that the mean doesn't depend on the order of arrival."""

    def __init__(self, ranks: int, size: int) -> None:
        self._vectors = torch.zeros(ranks, size)
        self._waiting: list[Respond] = []
        self._lock = threading.Lock()
        self._version = 0

    def __call__(self, request: Request, vector: Tensor | None, respond: Respond) -> None:
        assert vector is not None
        self._vectors[request.client].copy_(vector)
        with self._lock:
            self._waiting.append(respond)
            if len(self._waiting) < len(self._vectors):
                return
            waiting, self._waiting = self._waiting, []
            self._version += 1
        mean = self._vectors[0].clone()
        for other in self._vectors[1:]:
            mean.add_(other)
        mean.div_(len(self._vectors))
        for each in waiting:
            each(Answer(self._version), mean)


@contextmanager
def over_server(collective: Collective, rank: Rank) -> Iterator[Average]:
    """Yield the function that averages a vector over all ranks, for the block; rank 0 serves and is also a client."""
    exchange = collective.exchange
    assert exchange is not None
    with ExitStack() as open_:
        if rank.index == exchange.server:
            service = open_.enter_context(exchange.serve(rank, Mean(rank.world, collective.size)))
        line = open_.enter_context(exchange.connect(rank))

        def average(vector: Tensor) -> float | None:
            line.outgoing.copy_(vector)
            try:
                answer = line.ask(Request(rank.index, kind=0))
            finally:
                if rank.index == exchange.server:
                    service.check()
            vector.copy_(line.incoming)
            return answer.held_ns / 1e9 if rank.meeting_point else None

        yield average
