"""Runs on one GPU that all ranks share against the same runs on CPU cores, and what more trainers gain on that GPU.

One thread per rank; the figure is samples per second, from all ranks ready to all done, over complete runs. On a
machine with an NVIDIA GPU: python -m bench.gpu_speed [--rounds 5]
"""

import argparse
from collections.abc import Callable, Mapping
from typing import Any

from bench.measuring import alternate, finish, last_values, ratio, save, served_home
from engine.home import Home

COMMON: dict[str, Any] = {"threads_per_rank": 1}
MNIST = 60_000
HOGWILD = {"dataset": "mnist", "epochs": 1, "batch_size": 64, "evaluate_every": 0}
SYNC = {"dataset": "mnist", "rounds": 2, "batch_size": 64, "evaluate_every": 0, "checkpoint_every_s": 0}
SERVED = {"model": "resnet50", "trainers": 4, "batch_update_size": 4, "iterations": 6, "batch_size": 16}
STAGES = {"batches": 3, "batch_size": 120, "image_size": 128, "mode": "1f1b"}
Side = tuple[str, Mapping[str, Any], int]
"""Experiment, settings, and samples that the run trains on."""
SIDES: dict[str, Side] = {
    "hogwild_cpu_4": ("hogwild", HOGWILD | {"trainers": 4, "device": "cpu"}, 4 * MNIST),
    "hogwild_gpu_1": ("hogwild", HOGWILD | {"trainers": 1, "device": "cuda"}, MNIST),
    "hogwild_gpu_2": ("hogwild", HOGWILD | {"trainers": 2, "device": "cuda"}, 2 * MNIST),
    "hogwild_gpu_4": ("hogwild", HOGWILD | {"trainers": 4, "device": "cuda"}, 4 * MNIST),
    "sync_sgd_cpu_4": ("sync_sgd", SYNC | {"trainers": 4, "device": "cpu"}, 2 * MNIST),
    "sync_sgd_gpu_1": ("sync_sgd", SYNC | {"trainers": 1, "device": "cuda"}, 2 * MNIST),
    "sync_sgd_gpu_4": ("sync_sgd", SYNC | {"trainers": 4, "device": "cuda"}, 2 * MNIST),
    "resnet50_server_cpu_4": ("parameter_server", SERVED | {"device": "cpu"}, 4 * 6 * 16),
    "resnet50_server_gpu_4": ("parameter_server", SERVED | {"device": "cuda"}, 4 * 6 * 16),
    "pipeline_gpu_splits_1": ("pipeline", STAGES | {"splits": 1, "device": "cuda"}, 3 * 120),
    "pipeline_gpu_splits_4": ("pipeline", STAGES | {"splits": 4, "device": "cuda"}, 3 * 120),
}
RATIOS = (
    ("hogwild_gpu_4", "hogwild_cpu_4"),
    ("hogwild_gpu_2", "hogwild_gpu_1"),
    ("hogwild_gpu_4", "hogwild_gpu_1"),
    ("sync_sgd_gpu_4", "sync_sgd_cpu_4"),
    ("sync_sgd_gpu_4", "sync_sgd_gpu_1"),
    ("resnet50_server_gpu_4", "resnet50_server_cpu_4"),
    ("pipeline_gpu_splits_4", "pipeline_gpu_splits_1"),
)


def main() -> None:
    """Measure, print and save."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--only", nargs="+", default=[*SIDES], choices=[*SIDES])
    given = options.parse_args()
    rates: dict[str, list[float]] = {name: [] for name in given.only}
    with served_home() as home:
        for _ in range(given.rounds):
            for name, found in alternate(1, **{name: _measured(home, SIDES[name]) for name in given.only}).items():
                rates[name] += found
            save("gpu_speed", _figures(rates))


def _figures(rates: Mapping[str, list[float]]) -> dict[str, Any]:
    ratios = {f"{above} / {below}": (above, below) for above, below in RATIOS if above in rates and below in rates}
    return {
        "samples_per_second": {name: [round(value) for value in found] for name, found in rates.items()},
        "ratios": {name: ratio(rates[above], rates[below]) for name, (above, below) in ratios.items()},
    }


def _measured(home: Home, side: Side) -> Callable[[], float]:
    experiment, settings, samples = side

    def samples_per_second() -> float:
        run = finish(home, experiment, None, COMMON | settings, timeout_s=300)
        return samples / last_values(home, run)["perf/execution_time_s"]

    return samples_per_second


if __name__ == "__main__":
    main()
