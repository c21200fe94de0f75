"""Questions of 6 numbers by 10 clients who do nothing else, answered at once or when all have asked: what each
transport allows REINFORCE.

Run: python -m bench.small_messages [--rounds 5]
"""

import argparse
import tempfile
import threading
import time
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from bench.measuring import alternate, save
from engine.runtime.rank import fork_server
from engine.runtime.transport.request_reply import Answer, Exchange, Request, Respond
from engine.runtime.worker.ranks import Rank, Ranks
from engine.runtime.worker.sink import MemorySink

CLIENTS, QUESTIONS, NUMBERS = 10, 3000, 6
Transport = Literal["rpc", "shared_memory"]


class Answering:
    """The handler: keeps nothing, computes nothing."""

    def __init__(self, together: bool) -> None:
        self._together = together
        self._waiting: list[Respond] = []
        self._answered = 0
        self._lock = threading.Lock()
        self._vector = torch.zeros(NUMBERS)
        self.done = threading.Event()

    def __call__(self, request: Request, vector: Tensor | None, respond: Respond) -> None:
        with self._lock:
            self._waiting.append(respond)
            if self._together and len(self._waiting) < CLIENTS:
                return
            asked, self._waiting = self._waiting, []
            for each in asked:
                each(Answer(), self._vector)
            self._answered += len(asked)
            if self._answered == CLIENTS * QUESTIONS:
                self.done.set()


def take_part(rank: Rank, exchange: Exchange, together: bool) -> None:
    """Answer, or ask."""
    if rank.index == 0:
        handler = Answering(together)
        with exchange.serve(rank, handler):
            rank.ready()
            began = time.monotonic()
            handler.done.wait()
            rank.recorder.log({"rate": CLIENTS * QUESTIONS / (time.monotonic() - began)}, step=1)
        return
    with exchange.connect(rank) as line:
        rank.ready()
        for step in range(QUESTIONS):
            line.ask(Request(rank.index, 0, step))


def rate(transport: Transport, together: bool) -> float:
    """Return the questions answered per second."""
    sink = MemorySink()
    roles = ("server", *(f"client{number}" for number in range(1, CLIENTS + 1)))
    with tempfile.TemporaryDirectory() as folder:
        exchange = Exchange.create(
            transport, NUMBERS, server=0, server_role="server", clients=tuple(range(1, CLIENTS + 1))
        )
        Ranks(roles, ("cpu",) * len(roles), 1, 0, Path(folder), sink).run(take_part, exchange, together)
    return sink.values("rate")[0]


def main() -> None:
    """Measure, print and save."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=5)
    rounds = options.parse_args().rounds
    fork_server.start()
    fork_server.wait_until_loaded()
    found = alternate(
        rounds,
        rpc_together=lambda: rate("rpc", True),
        rpc_at_once=lambda: rate("rpc", False),
        shared_memory_together=lambda: rate("shared_memory", True),
        shared_memory_at_once=lambda: rate("shared_memory", False),
    )
    save("small_messages", {"rounds": rounds, "clients": CLIENTS, "questions_per_second": found})


if __name__ == "__main__":
    main()
