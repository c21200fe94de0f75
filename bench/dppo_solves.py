"""Seconds until CartPole-v1 is solved (10 seeds), and what Pendulum-v1 reaches (5 seeds), by presets quick and tuned.

Run: python -m bench.dppo_solves
"""

import statistics
from typing import Any

from bench.measuring import finish, last_values, save, served_home

SIDES = {"CartPole-v1": ("quick", range(1, 11)), "Pendulum-v1": ("tuned", range(1, 6))}


def main() -> None:
    """Measure, print and save."""
    figures: dict[str, Any] = {}
    with served_home() as home:
        for environment, (preset, seeds) in SIDES.items():
            runs = []
            for seed in seeds:
                run = finish(home, "dppo", preset, {"seed": seed, "render_every_s": 0})
                last = last_values(home, run)
                runs.append({"seed": seed, "seconds": run.execution_time_s, "reward": last["test/episodic_return"]})
                print(environment, runs[-1], flush=True)
            figures[environment] = {
                "preset": preset,
                "runs": runs,
                "median_s": statistics.median(run["seconds"] for run in runs),
            }
    save("dppo_solves", figures)


if __name__ == "__main__":
    main()
