"""Transfer of activations and gradients between parts of the net in different stages.

In shared memory a stage writes into a slot that the next part computes from: one copy, and a semaphore instead of a
message. Over RPC a tensor is sent to its receiver, from GPU to GPU if both have one. A slot is free again when the
input gradient of its micro-batch is done, which the schedule guarantees before the next write; in tests, which have no
backward, the receiver sends a release.
"""

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.futures import Future

from engine.data.tensors import check_room, shared_zeros
from engine.errors import RunFailed
from engine.experiments.pipeline.config import PipelineConfig
from engine.experiments.pipeline.partition import device_maps, largest_boundary
from engine.pipelining import depth, sizes
from engine.runtime.rank.rank import Semaphore
from engine.runtime.transport import rpc
from engine.runtime.worker.ranks import Rank

AHEAD, BACK = 0, 1
"""Directions: activations go forward, gradients and releases backward."""


class Link(Protocol):
    """One end of the connection of two parts of the net that follow each other; tensors are identified by their
    micro-batch.
    """

    neighbour: int
    """The other end's stage (from 0)."""

    def send(self, micro_batch: int, tensor: Tensor) -> None:
        """Send activations forward, or their gradient back."""

    def wait(self, micro_batch: int, what: str) -> None:
        """Wait for a tensor from the neighbour; raises RunFailed with the late stage's name."""

    def take(self, micro_batch: int, shape: tuple[int, ...]) -> Tensor:
        """Return the neighbour's tensor; wait first."""

    def release(self, micro_batch: int) -> None:
        """Free the slot of a received tensor, if there is no backward."""


class WaitTable:
    """Which stage each one waits for, in shared memory; passed to the ranks as an argument of `Ranks.run`."""

    def __init__(self, config: PipelineConfig) -> None:
        self.config = config
        self.stages: Tensor = torch.full((config.stages,), -1).share_memory_()  # type: ignore[no-untyped-call]
        """int64 [stages]: -1 for a stage that does not wait."""

    @contextmanager
    def waiting_for(self, stage: int, neighbour: int) -> Iterator[None]:
        """Mark for the block that a stage waits for its neighbour."""
        self.stages[stage] = neighbour
        yield
        self.stages[stage] = -1

    def timeout_error(self, stage: int, what: str) -> RunFailed:
        """Return the error of a stage that waited too long for `what`: it names the stage that all others wait for."""
        roles, limit = self.config.stage_roles, f"{self.config.timeout_s:g} s (timeout_s)"
        late, seen = int(self.stages[stage]), {stage}
        while (
            further := int(self.stages[late])
        ) >= 0 and further not in seen:  # a stage stopped during its wait points back
            seen.add(late)
            late = further
        through = "" if late == int(self.stages[stage]) else f", which {roles[int(self.stages[stage])]} waits for too"
        return RunFailed(
            f"{roles[late]} timed out sending after {limit}{through}: {roles[stage]} waited for "
            f"{what}. Check its log, or raise timeout_s if a micro-batch takes that long."
        )


@dataclass(frozen=True)
class Links:
    """All links of a run; passed to the ranks as an argument of `Ranks.run`."""

    config: PipelineConfig
    over_rpc: bool
    devices: tuple[str, ...]
    """The device of each stage."""
    waits: WaitTable
    slots: tuple[Tensor, ...]
    """For shared memory: float32 [2, slots, numbers] between parts k and k + 1 of the net."""
    bells: tuple[tuple[Semaphore, Semaphore], ...]

    @classmethod
    def create(cls, config: PipelineConfig, over_rpc: bool, devices: tuple[str, ...]) -> "Links":
        """Return links to pass to ranks; raises DataError if shared memory is too small for them."""
        waits = WaitTable(config)
        if over_rpc:
            return cls(config, True, devices, waits, (), ())
        numbers = largest_boundary(config) * max(sizes(config.batch_size, config.splits))
        counts = [slots_after(config, part) for part in range(config.layout.parts - 1)]
        check_room("The transfers between the stages", 4 * 2 * numbers * sum(counts))
        slots = tuple(shared_zeros(2, count, numbers) for count in counts)
        return cls(config, False, devices, waits, slots, tuple((Semaphore(), Semaphore()) for _ in counts))

    @contextmanager
    def open(self, rank: Rank, stage: int) -> Iterator[list[tuple[Link | None, Link | None]]]:
        """Yield, by chunk of the stage, the links to the parts before and after it, for the block."""
        if not self.over_rpc:
            yield self._of(stage)
            return
        with rpc.joined(rank, 2 * self.config.timeout_s + 10, device_maps(self.config, self.devices, rank)):
            clear_mail()
            rank.barrier("joined")
            yield self._of(stage)
            rank.barrier("through")

    def _of(self, stage: int) -> list[tuple[Link | None, Link | None]]:
        parts = [self.config.layout.part(stage, chunk) for chunk in range(self.config.layout.chunks)]
        return [(self._over(part - 1, stage, BACK), self._over(part, stage, AHEAD)) for part in parts]

    def _over(self, boundary: int, stage: int, out: int) -> Link | None:
        """Return a stage's end of the link between parts `boundary` and `boundary + 1`, if there are both."""
        layout = self.config.layout
        if not 0 <= boundary < layout.parts - 1:
            return None
        neighbour, _ = layout.place(boundary + 1 if out == AHEAD else boundary)
        if self.over_rpc:
            return RpcLink(self.waits, stage, neighbour, boundary, out)
        device = torch.device(self.devices[stage])
        return SharedLink(self.waits, stage, neighbour, self.slots[boundary], self.bells[boundary], out, device)


def slots_after(config: PipelineConfig, part: int) -> int:
    """Return the number of micro-batches whose activations may be under way after a part of the net."""
    stage, chunk = config.layout.place(part)
    return depth(config.schedule, stage, config.layout, chunk)


class SharedLink:
    """A link through shared memory."""

    def __init__(
        self,
        waits: WaitTable,
        stage: int,
        neighbour: int,
        slots: Tensor,
        bells: tuple[Semaphore, Semaphore],
        out: int,
        device: torch.device,
    ) -> None:
        self._waits = waits
        self._stage, self.neighbour = stage, neighbour
        self._device = device
        self._out, self._in = slots[out], slots[1 - out]
        self._sent, self._arrived = bells[out], bells[1 - out]

    def send(self, micro_batch: int, tensor: Tensor) -> None:
        slot_of(self._out, micro_batch, tuple(tensor.shape)).copy_(tensor.detach())
        self._sent.release()

    def wait(self, micro_batch: int, what: str) -> None:
        with self._waits.waiting_for(self._stage, self.neighbour):
            if not self._arrived.acquire(self._waits.config.timeout_s):
                raise self._waits.timeout_error(self._stage, what)

    def take(self, micro_batch: int, shape: tuple[int, ...]) -> Tensor:
        slot = slot_of(self._in, micro_batch, shape)
        return slot.data.to(
            self._device
        )  # .data: a write to another slot must not count as a change of this one for autograd

    def release(self, micro_batch: int) -> None:
        self._sent.release()


def slot_of(slots: Tensor, number: int, shape: tuple[int, ...]) -> Tensor:
    """Return a view [shape] of the micro-batch's slot; images are stored channels-last."""
    flat = slots[number % len(slots)][: torch.Size(shape).numel()]
    if len(shape) != 4:
        return flat.view(shape)
    count, channels, height, width = shape
    return flat.view(count, height, width, channels).permute(0, 3, 1, 2)


# ---- Links by remote calls: a tensor from a neighbour stays in a mailbox until the stage takes it ------------------

LOOK_S = 1.0
Address = tuple[int, int, int]
"""A boundary between two parts of the net, a direction, and a micro-batch."""


class Mailbox:
    """Tensors from neighbours that this stage has not taken yet."""

    def __init__(self) -> None:
        self._tensors: dict[Address, deque[tuple[Tensor | None, Any]]] = {}
        """By address, since calls may overtake each other."""
        self._changed = threading.Condition()

    def clear(self) -> None:
        """Drop everything."""
        with self._changed:
            self._tensors.clear()

    def put(self, address: Address, tensor: Tensor | None) -> None:
        """Add a tensor from another stage; on a GPU with the event after which its values are valid."""
        ready = None
        if tensor is not None and tensor.device.type == "cuda":
            ready = torch.cuda.current_stream(tensor.device).record_event()
        with self._changed:
            self._tensors.setdefault(address, deque()).append((tensor, ready))
            self._changed.notify_all()

    def wait(self, address: Address, timeout_s: float) -> bool:
        """Wait for a tensor; return False on a timeout."""
        with self._changed:
            return self._changed.wait_for(lambda: bool(self._tensors.get(address)), timeout_s)

    def take(self, address: Address) -> Tensor | None:
        """Return the first tensor with that address."""
        with self._changed:
            tensor, ready = self._tensors[address].popleft()
        if tensor is not None and ready is not None:
            stream = torch.cuda.current_stream(tensor.device)
            stream.wait_event(ready)
            tensor.record_stream(stream)
        return tensor


_mailbox = Mailbox()


def clear_mail() -> None:
    """Clear this process's mailbox."""
    _mailbox.clear()


def _deliver(address: Address, tensor: Tensor | None) -> None:
    _mailbox.put(address, tensor)


class RpcLink:
    """A link by remote calls; only the receiver waits."""

    def __init__(self, waits: WaitTable, stage: int, neighbour: int, boundary: int, out: int) -> None:
        self._waits = waits
        self._stage = stage
        self.neighbour = neighbour
        self._boundary, self._out = boundary, out
        self._role = waits.config.stage_roles[neighbour]
        self._sent: deque[Future[Any]] = deque()

    def _send(self, micro_batch: int, tensor: Tensor | None) -> None:
        while self._sent and self._sent[0].done():
            rpc.result_of(self._role, self._sent.popleft())
        self._sent.append(rpc.call_async(self._role, _deliver, (self._boundary, self._out, micro_batch), tensor))

    def send(self, micro_batch: int, tensor: Tensor) -> None:
        self._send(micro_batch, tensor.detach())

    def wait(self, micro_batch: int, what: str) -> None:
        deadline = time.monotonic() + self._waits.config.timeout_s
        with self._waits.waiting_for(self._stage, self.neighbour):
            while not _mailbox.wait((self._boundary, 1 - self._out, micro_batch), LOOK_S):
                if time.monotonic() > deadline:
                    raise self._waits.timeout_error(self._stage, what)

    def take(self, micro_batch: int, shape: tuple[int, ...]) -> Tensor:
        found = _mailbox.take((self._boundary, 1 - self._out, micro_batch))
        return torch.empty(0) if found is None else found

    def release(self, micro_batch: int) -> None:
        self._send(micro_batch, None)
