"""Test accuracy on MNIST through the servers: 10 passes, seeds 1, 2 and 3 of each preset and batch size.

Run: python -m bench.server_accuracy [--experiment async_sgd] [--presets tuned,published] [--batch-sizes 32,64]
[--transport rpc] [--name NAME] The file is written after each run; a later call measures only the seeds that it lacks.
"""

import argparse
import statistics
from typing import Any

from bench.measuring import finish, last_values, save, saved, served_home

SEEDS = (1, 2, 3)


def main() -> None:
    """Measure, print and save."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--experiment", default="async_sgd", choices=("async_sgd", "parameter_server"))
    options.add_argument("--presets", default="tuned,published")
    options.add_argument("--batch-sizes", default="", help="those to train with; default: the preset's own")
    options.add_argument("--transport", default="rpc")
    options.add_argument("--name", default="", help="the name of the result file; default: EXPERIMENT_accuracy")
    chosen = options.parse_args()
    sizes = [int(size) for size in chosen.batch_sizes.split(",") if size]
    sides = [(preset, size) for preset in chosen.presets.split(",") for size in (sizes or [None])]
    name = chosen.name or f"{chosen.experiment}_accuracy"
    figures: dict[str, Any] = saved(name)
    with served_home() as home:
        for seed in SEEDS:
            for preset, size in sides:
                found = figures.setdefault(
                    preset if size is None else f"{preset}, batch size {size}", {"seeds": [], "test_accuracy": []}
                )
                if seed in found["seeds"]:
                    continue
                changes = {
                    "seed": seed,
                    "evaluate_every": 0,
                    "device": "cpu",
                    "transport": chosen.transport,
                    **({"batch_size": size} if size else {}),
                }
                run = finish(home, chosen.experiment, preset, changes, timeout_s=7_200)
                found["seeds"].append(seed)
                found["test_accuracy"].append(round(last_values(home, run)["test/accuracy"], 4))
                found |= {"mean": round(statistics.mean(found["test_accuracy"]), 3), "settings": run.config}
                save(name, figures)


if __name__ == "__main__":
    main()
