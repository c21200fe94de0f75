"""Batched-RPC REINFORCE with 10 observers: the engine variant on each transport, and with 32 environments an observer,
against the tutorial's.

Run: python -m bench.reinforce_speed [--rounds 5]
"""

import argparse
from typing import Any

from bench.hogwild_speed import whole_run_s
from bench.measuring import alternate, finish, ratio, save, served_home

COMMON: dict[str, Any] = {"observers": 10, "threads_per_rank": 1, "device": "cpu"}
SIDES: dict[str, tuple[str, dict[str, Any]]] = {
    "tutorial": ("tutorial", {}),
    "rpc": ("published", {}),
    "rpc_32_environments": ("published", {"envs_per_observer": 32, "episodes": 5}),
    "shared_memory": ("published", {"transport": "shared_memory"}),
}


def main() -> None:
    """Measure, print and save."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=5)
    rounds = options.parse_args().rounds
    whole: dict[str, list[float]] = {name: [] for name in SIDES}
    with served_home() as home:

        def rate(side: str) -> float:
            preset, changes = SIDES[side]
            run = finish(home, "batched_reinforce", preset, COMMON | changes)
            assert run.execution_time_s
            whole[side].append(whole_run_s(run))
            steps = changes.get("episodes", 10) * 500 * COMMON["observers"] * changes.get("envs_per_observer", 1)
            return float(steps / run.execution_time_s)

        rates = alternate(rounds, **{side: (lambda side=side: rate(side)) for side in SIDES})
    save(
        "reinforce_speed",
        {
            "rounds": rounds,
            "env_steps_per_second": rates,
            "whole_run_s": whole,
            "rpc_over_tutorial": ratio(rates["rpc"], rates["tutorial"]),
            "tutorial_over_rpc_whole_run": ratio(whole["tutorial"], whole["rpc"]),
            "rpc_32_environments_over_tutorial": ratio(rates["rpc_32_environments"], rates["tutorial"]),
            "shared_memory_over_rpc": ratio(rates["shared_memory"], rates["rpc"]),
        },
    )


if __name__ == "__main__":
    main()
