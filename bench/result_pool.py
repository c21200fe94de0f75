"""A pool of recorded results: many seeds of a few short runs, from which tests draw samples to see how often an
interval covers the true mean.

The runs are those of the methods, in threads of this process: starting processes would take longer than they do.
Run: python -m bench.result_pool [--seeds 100]. The file is written every fifth seed, so that an interruption costs
little.
"""

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.measuring import save
from engine.registry import experiment, method
from engine.runtime.worker.ranks import LocalRanks

APART = 100
"""From one seed to the next."""
_SHORT = {"dataset": "digits", "batch_size": 16, "threads_per_rank": 1, "device": "cpu"}
SETUPS: Mapping[str, Mapping[str, Any]] = {
    "reference": _SHORT | {"epochs": 2, "learning_rate": 0.03, "momentum": 0.5},
    "sync_sgd": _SHORT
    | {"trainers": 2, "rounds": 4, "learning_rate": 0.03, "momentum": 0.5, "transport": "shared_memory"},
    "batched_reinforce": {
        "observers": 1,
        "envs_per_observer": 4,
        "episodes": 8,
        "transport": "shared_memory",
        "threads_per_rank": 1,
        "device": "cpu",
    },
}
TIME = "perf/execution_time_s"


def main() -> None:
    """Measure, print and save."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seeds", type=int, default=100)
    seeds = options.parse_args().seeds
    pool: dict[str, dict[str, list[float]]] = {name: {} for name in SETUPS}
    for place in range(seeds):
        for name in SETUPS:
            for number, value in _results(name, place * APART).items():
                pool[name].setdefault(number, []).append(round(value, 6))
        if place % 5 == 4 or place == seeds - 1:
            save("result_pool", {"seeds": place + 1, "apart": APART, "settings": SETUPS, "values": pool})


def _results(name: str, seed: int) -> dict[str, float]:
    """Return what a run came to: its last tests or the mean length of its episodes, and its time."""
    config = experiment(name).configure(None, SETUPS[name] | {"seed": seed})
    folder = Path(tempfile.mkdtemp(prefix="parallab-bench-"))
    ranks = LocalRanks(config.roles, seed=seed, folder=folder)
    started = time.perf_counter()
    try:
        method(name)(config, ranks)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    found = {TIME: time.perf_counter() - started}
    points = [point for recorder in ranks.recorders.values() for point in recorder.points]
    found |= {point.name: point.value for point in points if point.name in ("test/accuracy", "test/loss")}
    if lengths := [point.value for point in points if point.name == "charts/episodic_length"]:
        found["charts/episodic_length"] = statistics.fmean(lengths)
    return found


if __name__ == "__main__":
    main()
