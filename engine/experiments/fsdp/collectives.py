"""The trainers' collective operations, recorded: bytes sent, time waited, and the names of trainers that don't arrive.

A ring sends (N - 1) / N of a vector that is gathered or reduce-scattered, and twice that in an all-reduce. So a step of
P bytes of parameters sends 2 P (N - 1) / N in DDP and stage `sharded`, and 3 P (N - 1) / N in stage `full`.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, distributed
from torch.distributed import ProcessGroup, Work

from engine.plugin import AveragingGroup, Rank

if TYPE_CHECKING:
    from torch.distributed.fsdp import FSDPModule  # takes a second to import


class TrainerLinks:
    """One trainer's links to the others."""

    def __init__(self, rank: Rank, group: AveragingGroup) -> None:
        self.what = "the start"
        """What the trainer does now, for the error on a trainer that doesn't arrive."""
        self.sent = 0
        """Bytes sent so far, by a ring."""
        self.tag: Callable[[str, Tensor], None] = lambda kind, tensor: None
        """Called with each new tensor of gradients or buffers and its kind, where memory is measured."""
        self._ready_at = 0.0
        self.on_cpu = rank.device.type == "cpu"
        self._record = rank.recorder
        self._world = rank.world
        self._group = group

    def follow(self, module: "FSDPModule") -> None:
        """Record the operations of a sharded module."""
        module.set_custom_all_gather(_AllGather(self))  # type: ignore[arg-type]  # has what it asks for
        module.set_custom_reduce_scatter(_ReduceScatter(self))  # type: ignore[arg-type]

    def count(self, size: int, times: int = 1) -> None:
        """Count what is sent of a vector of `size` bytes that goes round `times` times."""
        sent = times * (self._world - 1) * size // self._world
        self.sent += sent
        self._record.exchanged(sent)

    def gradient_ready(self) -> None:
        """Note that a gradient of this trainer is ready."""
        self._ready_at = time.monotonic()

    @contextmanager
    def meeting(self, operation: str) -> Iterator[None]:
        """Record an operation of all trainers. On a CPU its time is the phase `communicate`; a GPU computes."""
        if self.on_cpu:
            with self._record.phase("communicate", operation), self._group.meeting(self.what, operation):
                yield
        else:
            with self._group.meeting(self.what, operation):
                yield

    @contextmanager
    def all_reduce(self, parameters: Sequence[Tensor]) -> Iterator[None]:
        """Record DDP's backward, which sends gradients while it computes others: on a CPU, what is left after the last
        gradient is ready is the phase `communicate`.
        """
        with self._group.meeting(self.what, "all-reduce"):
            yield
        if self.on_cpu:
            left = time.monotonic() - self._ready_at
            self._record.spend("communicate", left)
            self._record.spend("compute", -left)
        self.count(sum(parameter.nbytes for parameter in parameters), times=2)


class _Buffers:
    """Where FSDP gets the buffers of its operations."""

    def __init__(self, links: TrainerLinks) -> None:
        self.links = links

    def allocate(self, size: Sequence[int], *, dtype: torch.dtype, device: torch.device) -> Tensor:
        """Return a new buffer."""
        buffer = torch.empty(*size, dtype=dtype, device=device)
        self.links.tag("buffers", buffer)
        return buffer


class _AllGather(_Buffers):
    """FSDP's all-gather. On a CPU it runs beside computing until its result is needed; on a GPU its stream does."""

    def __call__(
        self, output_tensor: Tensor, input_tensor: Tensor, group: ProcessGroup, async_op: bool = False
    ) -> Work | None:
        self.links.count(output_tensor.nbytes)
        if self.links.on_cpu:
            return _Waited(distributed.all_gather_into_tensor(output_tensor, input_tensor, group, True), self.links)
        with self.links.meeting("all-gather"):
            return distributed.all_gather_into_tensor(output_tensor, input_tensor, group, async_op)


class _ReduceScatter(_Buffers):
    """FSDP's reduce-scatter; the trainer's part of the gradients stays in its output."""

    def __call__(
        self, output_tensor: Tensor, input_tensor: Tensor, group: ProcessGroup, op: Any, async_op: bool = False
    ) -> Work | None:
        self.links.count(input_tensor.nbytes)
        self.links.tag("gradients", output_tensor)
        with self.links.meeting("reduce-scatter"):
            return distributed.reduce_scatter_tensor(output_tensor, input_tensor, op, group, async_op)


class _Waited(Work):
    """A pending operation whose wait is recorded."""

    def __init__(self, work: Any, links: TrainerLinks) -> None:
        super().__init__()
        self._work, self._links = work, links

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        with self._links.meeting("all-gather"):
            return bool(self._work.wait())
