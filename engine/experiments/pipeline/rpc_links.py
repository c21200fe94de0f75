"""Links by remote calls: a tensor from a neighbour stays in a mailbox until the stage takes it."""

import threading
import time
from collections import deque
from typing import Any

import torch
from torch import Tensor
from torch.futures import Future

from engine.experiments.pipeline.config import PipelineConfig
from engine.experiments.pipeline.monitor import WaitTable
from engine.runtime.transport import rpc_group
from engine.runtime.worker.ranks import Rank

LOOK_S = 1.0


def device_maps(config: PipelineConfig, devices: tuple[str, ...], rank: Rank) -> rpc_group.DeviceMaps | None:
    """Return the device map from this rank's GPU to each stage's device; None for a stage without a GPU."""
    if rank.device.type != "cuda":
        return None
    return {
        role: {rank.device: torch.device(device)}
        for role, device in zip(config.stage_roles, devices, strict=True)
        if role != rank.role
    }


class Mailbox:
    """Tensors from neighbours that this stage has not taken yet."""

    def __init__(self) -> None:
        self._tensors: dict[tuple[int, int], deque[tuple[Tensor | None, Any]]] = {}
        """By sender and micro-batch, since calls may overtake each other."""
        self._changed = threading.Condition()

    def clear(self) -> None:
        """Drop everything."""
        with self._changed:
            self._tensors.clear()

    def put(self, sender: int, number: int, tensor: Tensor | None) -> None:
        """Add a tensor from a stage; on a GPU with the event after which its values are valid."""
        ready = None
        if tensor is not None and tensor.device.type == "cuda":
            ready = torch.cuda.current_stream(tensor.device).record_event()
        with self._changed:
            self._tensors.setdefault((sender, number), deque()).append((tensor, ready))
            self._changed.notify_all()

    def wait(self, sender: int, number: int, timeout_s: float) -> bool:
        """Wait for that stage's tensor for the micro-batch; return False on a timeout."""
        with self._changed:
            return self._changed.wait_for(lambda: bool(self._tensors.get((sender, number))), timeout_s)

    def take(self, sender: int, number: int) -> Tensor | None:
        """Return that stage's tensor for the micro-batch."""
        with self._changed:
            tensor, ready = self._tensors[sender, number].popleft()
        if tensor is not None and ready is not None:
            stream = torch.cuda.current_stream(tensor.device)
            stream.wait_event(ready)
            tensor.record_stream(stream)
        return tensor


_mailbox = Mailbox()


def clear_mail() -> None:
    """Clear this process's mailbox."""
    _mailbox.clear()


def _deliver(sender: int, number: int, tensor: Tensor | None) -> None:
    _mailbox.put(sender, number, tensor)


class RpcLink:
    """A link by remote calls; only the receiver waits."""

    def __init__(self, config: PipelineConfig, waits: WaitTable, stage: int, neighbour: int) -> None:
        self._waits = waits
        self._stage = stage
        self._neighbour = neighbour
        self._role = config.stage_roles[neighbour]
        self._sent: deque[Future[Any]] = deque()

    def _send(self, micro_batch: int, tensor: Tensor | None) -> None:
        while self._sent and self._sent[0].done():
            rpc_group.result_of(self._role, self._sent.popleft())
        self._sent.append(rpc_group.call_async(self._role, _deliver, self._stage, micro_batch, tensor))

    def send(self, micro_batch: int, tensor: Tensor) -> None:
        self._send(micro_batch, tensor.detach())

    def wait(self, micro_batch: int, what: str) -> None:
        deadline = time.monotonic() + self._waits.config.timeout_s
        with self._waits.waiting_for(self._stage, self._neighbour):
            while not _mailbox.wait(self._neighbour, micro_batch, LOOK_S):
                if time.monotonic() > deadline:
                    raise self._waits.timeout_error(self._stage, what)

    def take(self, micro_batch: int, shape: tuple[int, ...]) -> Tensor:
        found = _mailbox.take(self._neighbour, micro_batch)
        return torch.empty(0) if found is None else found

    def release(self, micro_batch: int) -> None:
        self._send(micro_batch, None)
