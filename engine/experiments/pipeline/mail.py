"""Links by remote calls: what a neighbour sends lies in a box until the stage takes it."""

import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.futures import Future

from engine.runtime.transport import rpc

if TYPE_CHECKING:
    from engine.experiments.pipeline.links import Lines

LOOK_S = 1.0


class Mail:
    """What neighbours have sent and this stage has not taken yet."""

    def __init__(self) -> None:
        self._letters: dict[tuple[int, int], deque[tuple[Tensor | None, Any]]] = {}
        """By sender and micro-batch: calls may overtake each other."""
        self._news = threading.Condition()

    def clear(self) -> None:
        """Forget everything."""
        with self._news:
            self._letters.clear()

    def put(self, sender: int, number: int, tensor: Tensor | None) -> None:
        """Add what a stage sent; on a GPU with the moment from which its numbers stand."""
        stands = None
        if tensor is not None and tensor.device.type == "cuda":
            stands = torch.cuda.current_stream(tensor.device).record_event()
        with self._news:
            self._letters.setdefault((sender, number), deque()).append((tensor, stands))
            self._news.notify_all()

    def wait(self, sender: int, number: int, timeout_s: float) -> bool:
        """Wait until that stage has sent something for the micro-batch; return False where it has not in time."""
        with self._news:
            return self._news.wait_for(lambda: bool(self._letters.get((sender, number))), timeout_s)

    def take(self, sender: int, number: int) -> Tensor | None:
        """Return what that stage sent for the micro-batch."""
        with self._news:
            tensor, stands = self._letters[sender, number].popleft()
        if tensor is not None and stands is not None:
            stream = torch.cuda.current_stream(tensor.device)
            stream.wait_event(stands)
            tensor.record_stream(stream)
        return tensor


_mail = Mail()


def forget_mail() -> None:
    """Begin with nothing sent."""
    _mail.clear()


def _deliver(sender: int, number: int, tensor: Tensor | None) -> None:
    _mail.put(sender, number, tensor)


class RpcLink:
    """A link by remote calls that nobody waits for but by what they bring."""

    def __init__(self, lines: "Lines", stage: int, neighbour: int) -> None:
        self._lines = lines
        self._stage = stage
        self._neighbour = neighbour
        self._role = lines.config.stage_roles[neighbour]
        self._sent: deque[Future[Any]] = deque()

    def _send(self, number: int, tensor: Tensor | None) -> None:
        while self._sent and self._sent[0].done():
            rpc.result_of(self._role, self._sent.popleft())
        self._sent.append(rpc.call_async(self._role, _deliver, self._stage, number, tensor))

    def send(self, number: int, tensor: Tensor) -> None:
        self._send(number, tensor.detach())

    def wait(self, number: int, what: str) -> None:
        deadline = time.monotonic() + self._lines.config.timeout_s
        with self._lines.waiting_for(self._stage, self._neighbour):
            while not _mail.wait(self._neighbour, number, LOOK_S):
                if time.monotonic() > deadline:
                    raise self._lines.blame(self._stage, what)

    def take(self, number: int, shape: tuple[int, ...]) -> Tensor:
        found = _mail.take(self._neighbour, number)
        return torch.empty(0) if found is None else found

    def release(self, number: int) -> None:
        self._send(number, None)
