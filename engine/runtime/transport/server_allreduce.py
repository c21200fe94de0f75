"""The mean on one of the ranks: all send it their vectors and get the mean back when the last one has arrived."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor

from engine.runtime.rank.rank import Rank
from engine.runtime.transport.allreduce import Average, Collective
from engine.runtime.transport.request_reply import Answer, Request, Respond


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
def averaging(collective: Collective, rank: Rank) -> Iterator[Average]:
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
