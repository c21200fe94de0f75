"""Hogwild! as published (MNIST, 4 trainers x 10 epochs) for three seeds, against the published 98.98 %.

Run: python -m bench.hogwild_accuracy [--seeds 1 2 3]
"""

import argparse
import statistics

from bench.measuring import finish, last_values, save, served_home

PUBLISHED = 98.98
SEEDS = [1, 2, 3]


def main() -> None:
    """Run each seed to its end, print and save."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    seeds = options.parse_args().seeds
    figures = {}
    with served_home() as home:
        for seed in seeds:
            run = finish(home, "hogwild", "published", {"seed": seed})
            last = last_values(home, run)
            figures[str(seed)] = {
                name: last[name]
                for name in ("test/accuracy", "test/loss", "perf/execution_time_s", "perf/startup_time_s")
            }
    mean = statistics.mean(figure["test/accuracy"] for figure in figures.values())
    save(
        "hogwild_accuracy",
        {
            "seeds": figures,
            "mean_accuracy": round(mean, 3),
            "published": PUBLISHED,
            "difference": round(mean - PUBLISHED, 3),
        },
    )


if __name__ == "__main__":
    main()
