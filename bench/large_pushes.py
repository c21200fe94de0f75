"""Seconds that 5 trainers who only push take for a round of ResNet-50's vectors over RPC, with huge pages and without.

Run: python -m bench.large_pushes [--rounds 5]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.measuring import alternate, ratio, save
from engine.experiments.parameter_server.config import ParameterServerConfig
from engine.experiments.parameter_server.method import _BatchServer
from engine.home import ROOT
from engine.runtime.rank import fork_server
from engine.runtime.transport.request_reply import Exchange, Request
from engine.runtime.worker.ranks import Rank, Ranks
from engine.runtime.worker.sink import MemorySink
from engine.training.server import FETCH, LEAVE, PUSH
from engine.training.server_loop import ServerLoop, exchange_with_server
from engine.training.workload import RandomImages

TRAINERS, TURNS = 5, 6
CONFIG = ParameterServerConfig.check(
    {
        "model": "resnet50",
        "trainers": TRAINERS,
        "batch_update_size": TRAINERS,
        "iterations": TURNS,
        "batch_size": 20,
        "checkpoint_every_s": 0,
        "device": "cpu",
    }
)
WORKLOAD = RandomImages("resnet50", TRAINERS, 20, TURNS)


def main() -> None:
    """Measure, print and save; with --once, measure one side in this process."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.once:
        print(json.dumps(once()))
        return
    seconds = alternate(chosen.rounds, usual_pages=lambda: measure("0"), huge_pages=lambda: measure("1"))
    save(
        "large_pushes",
        {
            "rounds": chosen.rounds,
            "seconds_a_round_of_pushes": seconds,
            "usual_over_huge": ratio(seconds["usual_pages"], seconds["huge_pages"]),
        },
    )


def measure(huge: str) -> float:
    """Return the seconds of one side, in a program of its own: malloc is told at a program's start."""
    surroundings = os.environ | {"GLIBC_TUNABLES": f"glibc.malloc.hugetlb={huge}"}
    ended = subprocess.run(
        [sys.executable, "-m", "bench.large_pushes", "--once"],
        cwd=ROOT,
        env=surroundings,
        stdout=subprocess.PIPE,
        check=True,
    )
    return float(json.loads(ended.stdout.splitlines()[-1]))


def once() -> float:
    """Return the mean seconds a round of pushes."""
    fork_server.start()
    sink = MemorySink()
    with tempfile.TemporaryDirectory() as folder:
        ranks = Ranks(CONFIG.roles, ("cpu",) * (TRAINERS + 1), 1, 0, Path(folder), sink)
        ranks.run(take_part, exchange_with_server(CONFIG, WORKLOAD, "cpu"))
    found = sink.values("turn_s")
    return sum(found) / len(found)


def take_part(rank: Rank, exchange: Exchange) -> None:
    """Serve, or push without computing."""
    if rank.index == 0:
        ServerLoop(rank, CONFIG, _BatchServer(rank, CONFIG, WORKLOAD)).run(exchange)
        return
    with exchange.connect(rank) as line:
        rank.ready()
        line.ask(Request(rank.index, FETCH), send=False)
        began = time.monotonic()
        for turn in range(1, TURNS + 1):
            line.ask(Request(rank.index, PUSH, turn, turn - 1, 20))
        rank.recorder.log({"turn_s": (time.monotonic() - began) / TURNS}, step=1)
        line.ask(Request(rank.index, LEAVE), send=False)


if __name__ == "__main__":
    main()
