"""ResNet-50 through the parameter server, 5 trainers x 6 steps of 20 images of 3x64x64: engine against tutorial, and
against its bound.

The bound is cores x the rate of one process that does the same steps alone on one thread. Run: python -m
bench.server_speed [--rounds 5]
"""

import argparse
import os
import tempfile
from pathlib import Path
from typing import Any

from bench.hogwild_speed import whole_run_s
from bench.measuring import alternate, finish, ratio, save, served_home
from engine.data.weights import FlatSgd
from engine.runtime.rank import fork_server
from engine.runtime.worker.ranks import Rank, Ranks
from engine.runtime.worker.sink import MemorySink
from engine.training.flat_net import FlatNet
from engine.training.workload import RandomImages

ENGINE: dict[str, Any] = {"threads_per_rank": 1, "device": "cpu", "checkpoint_every_s": 0}
SIDES: dict[str, tuple[str, dict[str, Any]]] = {
    "tutorial": ("tutorial", {"threads_per_rank": 1}),
    "rpc": ("resnet50", ENGINE),
    "rpc_bf16": ("resnet50", ENGINE | {"wire": "bf16"}),
    "shared_memory": ("resnet50", ENGINE | {"transport": "shared_memory"}),
}
STEPS, BATCH, TRAINERS = 6, 20, 5


def main() -> None:
    """Measure, print and save."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=5)
    rounds = options.parse_args().rounds
    fork_server.start()
    images: dict[str, list[float]] = {name: [] for name in SIDES}
    with served_home() as home:

        def measure(side: str) -> float:
            preset, changes = SIDES[side]
            run = finish(home, "parameter_server", preset, changes)
            assert run.execution_time_s
            images[side].append(TRAINERS * STEPS * BATCH / run.execution_time_s)
            return whole_run_s(run)

        seconds = alternate(
            rounds, **{side: (lambda side=side: measure(side)) for side in SIDES}, one_process=one_process_rate
        )
    bound = [(os.cpu_count() or 1) * rate for rate in seconds.pop("one_process")]
    save(
        "server_speed",
        {
            "rounds": rounds,
            "threads_per_rank": 1,
            "whole_run_s": seconds,
            "images_per_second": images,
            "cores_x_one_process": bound,
            "tutorial_over_engine_whole_run": ratio(seconds["tutorial"], seconds["rpc"]),
            "tutorial_over_bf16_whole_run": ratio(seconds["tutorial"], seconds["rpc_bf16"]),
            "tutorial_over_shared_memory_whole_run": ratio(seconds["tutorial"], seconds["shared_memory"]),
            "engine_over_tutorial_rounds_per_second": ratio(images["rpc"], images["tutorial"]),
            "share_of_the_bound": {side: ratio(images[side], bound) for side in SIDES},
        },
    )


def one_process_rate() -> float:
    """Return the images per second of one process that computes and updates alone, on one thread."""
    with tempfile.TemporaryDirectory() as folder:
        ranks = Ranks(("trainer1",), ("cpu",), 1, 0, Path(folder), MemorySink())
        ranks.run(train_alone)
    assert ranks.execution_time_s
    return STEPS * BATCH / ranks.execution_time_s


def train_alone(rank: Rank) -> None:
    """Do what one trainer and the server do, without a way between them."""
    workload = RandomImages("resnet50", 1, BATCH, STEPS)
    net = FlatNet(workload.net(0), workload.loss)
    optimizer = FlatSgd(net.weights, net.gradient, 0.001, 0.9)
    rank.ready()
    for images, targets in workload.batches(1, 0, 0):
        net.compute_gradient(images, targets)
        optimizer.step()


if __name__ == "__main__":
    main()
