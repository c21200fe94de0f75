"""What each mode makes of 4 collectors: env steps learned from per second, the share of steps used, synchronizations
per 1000 steps.

Run: python -m bench.dppo_modes [--rounds 5]
"""

import argparse
from typing import Any

from bench.measuring import alternate, finish, last_values, ratio, save, served_home

SETTINGS: dict[str, Any] = {
    "total_steps": 40_000,
    "evaluate_every_s": 0,
    "render_every_s": 0,
    "stop_when_solved": False,
}
MODES = ("bounded_queue", "update_locked", "reader_writer", "unlocked")


def main() -> None:
    """Measure, print and save."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=5)
    rounds = options.parse_args().rounds
    shares: dict[str, list[dict[str, float]]] = {mode: [] for mode in MODES}
    with served_home() as home:

        def rate(mode: str) -> float:
            run = finish(home, "dppo", "published", SETTINGS | {"mode": mode})
            last = last_values(home, run)
            shares[mode].append(
                {name: last[f"perf/{name}"] for name in ("steps_used", "synchronizations", "policy_age")}
            )
            return last["perf/env_steps_per_second"] * last["perf/steps_used"] / 100

        rates = alternate(rounds, **{mode: (lambda mode=mode: rate(mode)) for mode in MODES})
    save(
        "dppo_modes",
        {
            "rounds": rounds,
            "collectors": 4,
            "used_steps_per_second": rates,
            "of_the_last_update": shares,
            "bounded_queue_over_reader_writer": ratio(rates["bounded_queue"], rates["reader_writer"]),
            "bounded_queue_over_update_locked": ratio(rates["bounded_queue"], rates["update_locked"]),
        },
    )


if __name__ == "__main__":
    main()
