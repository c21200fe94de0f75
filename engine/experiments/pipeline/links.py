"""How activations and their gradients get from one stage to the next.

In shared memory a stage writes into a slot that the next one computes from: one copy, no message but a ring of a bell.
Over RPC a tensor travels to its receiver, from GPU to GPU where both have one. A slot is free again when the backward
of its micro-batch is done, which the schedule guarantees before it is written to; in tests, which have no backward, the
receiver says so.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from engine.data.shared_tensors import check_room, shared_zeros
from engine.errors import RunFailed
from engine.experiments.pipeline.config import PipelineConfig
from engine.experiments.pipeline.cutting import largest_boundary
from engine.experiments.pipeline.mail import RpcLink, forget_mail
from engine.pipelining.schedules import depth, sizes
from engine.runtime.rank.semaphore import Bell
from engine.runtime.transport import rpc
from engine.runtime.worker.ranks import Rank

AHEAD, BACK = 0, 1
"""Directions: activations go ahead, gradients and free slots come back."""


class Link(Protocol):
    """One end of the way between two neighbouring stages."""

    def send(self, number: int, tensor: Tensor) -> None:
        """Send the micro-batch's activations ahead, or their gradient back."""

    def wait(self, number: int, what: str) -> None:
        """Wait for what the neighbour sends for that micro-batch; raises RunFailed that names who is late."""

    def take(self, number: int, shape: tuple[int, ...]) -> Tensor:
        """Return what the neighbour sent for the micro-batch; wait first."""

    def release(self, number: int) -> None:
        """Say that what was taken for the micro-batch is used up; where there is no backward."""


@dataclass(frozen=True)
class Lines:
    """All ways of a run between its stages; travels to the ranks as an argument of `Ranks.run`."""

    config: PipelineConfig
    over_rpc: bool
    devices: tuple[str, ...]
    """The device of each stage."""
    waiting: Tensor
    """int64 [stages] in shared memory: which stage each one waits for, -1 where it does not wait."""
    boards: tuple[Tensor, ...]
    """For shared memory: float32 [2, slots, numbers] between stages k and k + 1."""
    bells: tuple[tuple[Bell, Bell], ...]

    @classmethod
    def create(cls, config: PipelineConfig, over_rpc: bool, devices: tuple[str, ...]) -> "Lines":
        """Return lines ready to be handed to ranks; raises DataError where shared memory is too small for them."""
        waiting = torch.full((config.stages,), -1).share_memory_()  # type: ignore[no-untyped-call]
        if over_rpc:
            return cls(config, True, devices, waiting, (), ())
        numbers = largest_boundary(config) * max(sizes(config.batch_size, config.splits))
        slots = [depth(config.schedule, stage, config.stages, config.splits) for stage in range(config.stages - 1)]
        check_room("What travels between the stages", 4 * 2 * numbers * sum(slots))
        boards = tuple(shared_zeros(2, count, numbers) for count in slots)
        return cls(config, False, devices, waiting, boards, tuple((Bell(), Bell()) for _ in slots))

    @contextmanager
    def open(self, rank: Rank, stage: int) -> Iterator[tuple[Link | None, Link | None]]:
        """Yield the links to the stage before and the one after, for the block."""
        before, after = stage > 0, stage < self.config.stages - 1
        if not self.over_rpc:
            yield (
                self._shared(stage, stage - 1) if before else None,
                self._shared(stage, stage + 1) if after else None,
            )
            return
        with rpc.joined(rank, 2 * self.config.timeout_s + 10, device_maps(self.config, self.devices, rank)):
            forget_mail()
            rank.barrier("joined")
            yield (
                RpcLink(self, stage, stage - 1) if before else None,
                RpcLink(self, stage, stage + 1) if after else None,
            )
            rank.barrier("through")

    def _shared(self, stage: int, neighbour: int) -> "SharedLink":
        place = min(stage, neighbour)
        return SharedLink(self, stage, neighbour, self.boards[place], self.bells[place])

    @contextmanager
    def waiting_for(self, stage: int, neighbour: int) -> Iterator[None]:
        """Say for the block that a stage waits for its neighbour."""
        self.waiting[stage] = neighbour
        yield
        self.waiting[stage] = -1

    def blame(self, stage: int, what: str) -> RunFailed:
        """Return the error of a stage that has waited too long: it names the one that all others wait for."""
        roles, limit = self.config.stage_roles, f"{self.config.timeout_s:g} s (timeout_s)"
        late, seen = int(self.waiting[stage]), {stage}
        while (
            further := int(self.waiting[late])
        ) >= 0 and further not in seen:  # who was stopped while it waited points back
            seen.add(late)
            late = further
        through = "" if late == int(self.waiting[stage]) else f", which {roles[int(self.waiting[stage])]} waits for too"
        return RunFailed(
            f"{roles[late]} did not come to send within {limit}{through}: {roles[stage]} waited for {what}. "
            "Look at its log, or raise timeout_s where a micro-batch takes that long."
        )


def device_maps(config: PipelineConfig, devices: tuple[str, ...], rank: Rank) -> rpc.DeviceMaps | None:
    """Return where tensors of this rank's GPU go at each stage, None where it has none."""
    if rank.device.type != "cuda":
        return None
    return {
        role: {rank.device: torch.device(device)}
        for role, device in zip(config.stage_roles, devices, strict=True)
        if role != rank.role
    }


class SharedLink:
    """A link through memory that both stages see."""

    def __init__(self, lines: Lines, stage: int, neighbour: int, board: Tensor, bells: tuple[Bell, Bell]) -> None:
        self._lines = lines
        self._stage = stage
        self._neighbour = neighbour
        self._device = torch.device(lines.devices[stage])
        out = AHEAD if neighbour > stage else BACK
        self._out, self._in = board[out], board[1 - out]
        self._rings, self._hears = bells[out], bells[1 - out]

    def send(self, number: int, tensor: Tensor) -> None:
        slot_of(self._out, number, tuple(tensor.shape)).copy_(tensor.detach())
        self._rings.ring()

    def wait(self, number: int, what: str) -> None:
        with self._lines.waiting_for(self._stage, self._neighbour):
            if not self._hears.heard(self._lines.config.timeout_s):
                raise self._lines.blame(self._stage, what)

    def take(self, number: int, shape: tuple[int, ...]) -> Tensor:
        return slot_of(self._in, number, shape).data.to(
            self._device
        )  # .data: what is written to other slots is no change of this one

    def release(self, number: int) -> None:
        self._rings.ring()


def slot_of(slots: Tensor, number: int, shape: tuple[int, ...]) -> Tensor:
    """Return the stretch of a micro-batch's slot that holds a tensor of `shape`; images lie in it channels-last."""
    flat = slots[number % len(slots)][: torch.Size(shape).numel()]
    if len(shape) != 4:
        return flat.view(shape)
    count, channels, height, width = shape
    return flat.view(count, height, width, channels).permute(0, 3, 1, 2)
