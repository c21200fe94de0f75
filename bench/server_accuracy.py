"""Test accuracy on MNIST through the servers: 10 passes, presets published and tuned, seeds 1, 2 and 3.

Run: python -m bench.server_accuracy [--experiment async_sgd] [--presets tuned,published]
"""

import argparse
import statistics
from typing import Any

from bench.measuring import finish, last_values, save, served_home

SEEDS = (1, 2, 3)


def main() -> None:
    """Measure, print and save."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--experiment", default="async_sgd", choices=("async_sgd", "parameter_server"))
    options.add_argument("--presets", default="tuned,published")
    chosen = options.parse_args()
    figures: dict[str, Any] = {}
    with served_home() as home:
        for preset in chosen.presets.split(","):
            accuracies = []
            for seed in SEEDS:
                run = finish(home, chosen.experiment, preset, {"seed": seed, "evaluate_every": 0, "device": "cpu"})
                accuracies.append(last_values(home, run)["test/accuracy"])
            figures[preset] = {"seeds": SEEDS, "test_accuracy": accuracies, "mean": round(statistics.mean(accuracies), 3), "settings": run.config}
    save(f"{chosen.experiment}_accuracy", figures)


if __name__ == "__main__":
    main()
