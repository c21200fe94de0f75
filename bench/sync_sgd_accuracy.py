"""Synchronous SGD as published (MNIST, 4 trainers, 12 rounds of a quarter each) and tuned, for three seeds, after
rounds 4, 8 and 12.

The published figures are 97.34, 97.94 and 97.96 %, of code that in truth ran Hogwild!. Run: python -m
bench.sync_sgd_accuracy [--seeds 1 2 3]
"""

import argparse
import statistics
from typing import Any

from bench.measuring import finish, last_values, save, served_home
from engine.home import Home
from engine.store import Reader
from engine.store.records import Run

PUBLISHED = [97.34, 97.94, 97.96]
SEEDS = [1, 2, 3]
PRESETS = ["published", "tuned"]


def main() -> None:
    """Run each preset with each seed to its end, print and save."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    options.add_argument("--presets", nargs="+", default=PRESETS)
    options.add_argument("--dataset", default="mnist", help="another one to try the benchmark itself")
    given = options.parse_args()
    with served_home() as home:
        figures = {preset: measure(home, preset, given.seeds, given.dataset) for preset in given.presets}
    save("sync_sgd_accuracy", figures | {"published_accuracy": PUBLISHED})


def measure(home: Home, preset: str, seeds: list[int], dataset: str) -> dict[str, Any]:
    """Return one preset's figures for each seed, and the mean accuracy after rounds 4, 8 and 12."""
    found = {}
    for seed in seeds:
        run = finish(home, "sync_sgd", preset, {"seed": seed, "dataset": dataset})
        last = last_values(home, run)
        found[str(seed)] = {name: curve(home, run, name) for name in ("test/accuracy", "test/loss")} | {
            name: last[name] for name in ("perf/execution_time_s", "perf/startup_time_s")
        }
    means = [
        round(statistics.mean(values), 3)
        for values in zip(*(figure["test/accuracy"] for figure in found.values()), strict=True)
    ]
    return {"seeds": found, "mean_accuracy": means}


def curve(home: Home, run: Run, metric: str) -> list[float]:
    """Return all values that trainer1 recorded of a metric."""
    with Reader.open(home) as reader:
        return [value for series in reader.curves.series(run.id, [metric]) for value in series.values]


if __name__ == "__main__":
    main()
