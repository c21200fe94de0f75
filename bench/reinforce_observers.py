"""Execution time against 1 to 16 observers, both modes, some seeds each: the shape of the tutorial's figure.

Run: python -m bench.reinforce_observers [--steps 200] [--seeds 3]
"""

import argparse
import statistics
from typing import Any

from bench.measuring import finish, save, served_home

COUNTS, MODES = (1, 2, 4, 6, 8, 10, 12, 14, 16), ("per_call", "batched")


def main() -> None:
    """Measure, print and save."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--steps", type=int, default=200)
    options.add_argument("--seeds", type=int, default=3)
    asked = options.parse_args()
    steps, seeds = asked.steps, range(1, asked.seeds + 1)
    times: dict[str, dict[int, list[float]]] = {mode: {count: [] for count in COUNTS} for mode in MODES}
    with served_home() as home:
        for seed in seeds:
            for count in COUNTS:
                for mode in MODES:
                    changes: dict[str, Any] = {
                        "observers": count,
                        "mode": mode,
                        "seed": seed,
                        "steps": steps,
                        "threads_per_rank": 1,
                        "device": "cpu",
                    }
                    run = finish(home, "batched_reinforce", "published", changes)
                    assert run.execution_time_s
                    times[mode][count].append(run.execution_time_s)
    medians = {
        mode: {count: round(statistics.median(found), 3) for count, found in own.items()} for mode, own in times.items()
    }
    save("reinforce_observers", {"seeds": list(seeds), "steps": steps, "execution_time_s": times, "median_s": medians})


if __name__ == "__main__":
    main()
