"""Pushes per second that a server of the MNIST net takes from 4 trainers that only push, each answered with the new
weights.

Every side is the same server on another transport, and on none: how fast it applies gradients that are there already,
by one thread and no answer.
Run: python -m bench.pushes [--rounds 5] [--pushes 1500]
"""

import argparse
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import torch

from bench.measuring import alternate, ratio, save
from engine.data.sets.registry import load
from engine.experiments.async_sgd.config import AsyncSgdConfig
from engine.experiments.async_sgd.method import _AsyncServer
from engine.runtime.rank import fork_server
from engine.runtime.transport.request_reply import Exchange, Request
from engine.runtime.worker.ranks import LocalRanks, Rank, Ranks
from engine.runtime.worker.sink import MemorySink
from engine.training.flat_net import flat_state
from engine.training.server import LEAVE, PUSH
from engine.training.server_loop import ServerLoop
from engine.training.workload import Digits

CONFIG = AsyncSgdConfig.check(
    {
        "dataset": "digits",
        "trainers": 4,
        "evaluate_every": 0,
        "checkpoint_every_s": 0,
        "learning_rate": 1e-9,
        "device": "cpu",
    }
)


def main() -> None:
    """Measure, print and save."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--pushes", type=int, default=1500)
    chosen = options.parse_args()
    fork_server.start()
    workload = Digits(load("digits"), 4, 64, 10)
    shares: dict[str, Any] = {}
    sides = {name: partial(rate, name, workload, chosen.pushes, shares) for name in ("rpc", "gloo", "shared_memory")}
    rates = alternate(chosen.rounds, **sides, no_transport=partial(bare, workload, chosen.pushes))
    save(
        "pushes",
        {
            "rounds": chosen.rounds,
            "trainers": 4,
            "threads_per_rank": 1,
            "pushes_per_second": rates,
            "gloo_over_rpc": ratio(rates["gloo"], rates["rpc"]),
            "shared_memory_over_rpc": ratio(rates["shared_memory"], rates["rpc"]),
            "cpu_ms_per_push_of_the_last_round": shares,
        },
    )


def rate(transport: Any, workload: Digits, pushes: int, shares: dict[str, Any]) -> float:
    """Return the pushes per second over one transport."""
    exchange = Exchange.create(
        transport, len(flat_state(workload.net(0))), server=0, server_role="ps", clients=(1, 2, 3, 4)
    )
    with tempfile.TemporaryDirectory() as folder:
        sink = MemorySink()
        ranks = Ranks(CONFIG.roles, ("cpu",) * 5, 1, 0, Path(folder), sink)
        ranks.run(take_part, exchange, workload, pushes)
    assert ranks.execution_time_s
    server, trainers = sink.values("cpu_s", 0)[0], sum(sum(sink.values("cpu_s", index)) for index in (1, 2, 3, 4))
    shares[transport] = {
        "server": round(1e3 * server / (4 * pushes), 3),
        "trainer": round(1e3 * trainers / (4 * pushes), 3),
    }
    return 4 * pushes / ranks.execution_time_s


def take_part(rank: Rank, exchange: Exchange, workload: Digits, pushes: int) -> None:
    """Serve, or push one gradient after another."""
    if rank.index == 0:
        server = _AsyncServer(rank, CONFIG, workload)
        began = cpu_s()
        ServerLoop(rank, CONFIG, server).run(exchange)
        assert server.version == 4 * pushes
        rank.recorder.log({"cpu_s": cpu_s() - began}, step=1)
        return
    with exchange.connect(rank) as line:
        line.outgoing.copy_(torch.randn(exchange.size))
        rank.ready()
        began = cpu_s()
        for step in range(1, pushes + 1):
            line.ask(Request(rank.index, PUSH, step, 0, 64))
        rank.recorder.log({"cpu_s": cpu_s() - began}, step=1)
        line.ask(Request(rank.index, LEAVE), send=False)


def cpu_s() -> float:
    """Return the CPU time of this process so far."""
    times = psutil.Process().cpu_times()
    return float(times.user + times.system)


def bare(workload: Digits, pushes: int) -> float:
    """Return the rate at which the server alone applies gradients."""
    rates: list[float] = []

    def apply(rank: Rank) -> None:
        server = _AsyncServer(rank, CONFIG, workload)
        gradient, step = torch.randn(len(server.state)), 0
        began = time.perf_counter()
        for step in range(1, 4 * pushes + 1):
            server(Request(1, PUSH, step, 0, 64), gradient, lambda answer, vector: None)
        rates.append(step / (time.perf_counter() - began))

    LocalRanks(("ps",)).run(apply)
    return rates[0]


if __name__ == "__main__":
    main()
