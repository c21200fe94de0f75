"""Questions of 6 numbers by 10 clients who do nothing else, answered at once or when all have asked: what each
transport allows REINFORCE, and what share of it REINFORCE reaches over RPC.

Run: python -m bench.small_messages [--rounds 5] [--transports rpc]
"""

import argparse
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from bench.measuring import alternate, ratio, save
from engine.experiments.batched_reinforce.config import BatchedReinforceConfig
from engine.registry import method
from engine.runtime.rank import fork_server
from engine.runtime.transport.request_reply import Answer, Exchange, Request, Respond
from engine.runtime.worker.ranks import Rank, Ranks
from engine.runtime.worker.sink import MemorySink

CLIENTS, QUESTIONS, NUMBERS = 10, 3000, 6
EPISODES, STEPS = 11, 100
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


def env_steps(mode: str) -> float:
    """Return the env steps per second of as many observers over RPC, between the first update and the last."""
    asked = {"observers": CLIENTS, "mode": mode, "episodes": EPISODES, "steps": STEPS}
    config = BatchedReinforceConfig.check(asked | {"threads_per_rank": 1, "device": "cpu"})
    sink = MemorySink()
    with tempfile.TemporaryDirectory() as folder:
        ranks = Ranks(config.roles, ("cpu",) * len(config.roles), 1, config.seed, Path(folder), sink)
        method("batched_reinforce")(config, ranks)
    times = [point.time_s for batch in sink.batches for point in batch.points if point.name == "train/loss"]
    return CLIENTS * STEPS * (EPISODES - 1) / (times[-1] - times[0])


def main() -> None:
    """Measure, print and save."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--transports", nargs="+", default=["rpc", "shared_memory"])
    asked = options.parse_args()
    questions: dict[str, Callable[[], float]] = {
        f"{transport}_{'together' if together else 'at_once'}": partial(rate, transport, together)
        for transport in asked.transports
        for together in (True, False)
    }
    steps = {f"reinforce_{mode}": partial(env_steps, mode) for mode in ("batched", "per_call")}
    fork_server.start()
    fork_server.wait_until_loaded()
    found = alternate(asked.rounds, **questions, **steps)
    save(
        "small_messages",
        {
            "rounds": asked.rounds,
            "clients": CLIENTS,
            "questions_per_second": {name: found[name] for name in questions},
            "env_steps_per_second": {name: found[name] for name in steps},
            "reinforce_over_questions": ratio(found["reinforce_batched"], found["rpc_together"]),
            "batched_over_per_call": ratio(found["reinforce_batched"], found["reinforce_per_call"]),
        },
    )


if __name__ == "__main__":
    main()
