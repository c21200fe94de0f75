"""Hogwild! on MNIST, one epoch by each trainer, one thread a rank: engine against tutorial as whole runs, 2 trainers
against 1.

A whole run counts from the claim to the end, start-up included, on a warm runner. Run: python -m bench.hogwild_speed
[--rounds 5]
"""

import argparse
from datetime import datetime
from typing import Any

from bench.measuring import alternate, finish, last_values, ratio, save, served_home
from engine.home import Home
from engine.store.records import Run

COMMON: dict[str, Any] = {"dataset": "mnist", "epochs": 1, "threads_per_rank": 1, "device": "cpu", "evaluate_every": 0}


def whole_run_s(run: Run) -> float:
    """Return the seconds from the claim to the end."""
    assert run.claimed_at
    assert run.ended_at
    return (datetime.fromisoformat(run.ended_at) - datetime.fromisoformat(run.claimed_at)).total_seconds()


def main() -> None:
    """Measure, print and save."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=5)
    rounds = options.parse_args().rounds
    with served_home() as home:
        figures = measure(home, rounds)
    save("hogwild_speed", figures)


def measure(home: Home, rounds: int) -> dict[str, Any]:
    """Return both ratios with the figures behind them."""
    throughput: dict[int, list[float]] = {1: [], 2: []}

    def engine(trainers: int) -> float:
        run = finish(home, "hogwild", None, COMMON | {"variant": "engine", "trainers": trainers})
        throughput[trainers].append(last_values(home, run)["perf/samples_per_second"])
        return whole_run_s(run)

    def tutorial() -> float:
        return whole_run_s(
            finish(home, "hogwild", None, COMMON | {"variant": "tutorial", "trainers": 2, "start_method": "spawn"})
        )

    seconds = alternate(rounds, tutorial=tutorial, engine=lambda: engine(2), one_trainer=lambda: engine(1))
    return {
        "rounds": rounds,
        "threads_per_rank": 1,
        "whole_run_s": seconds,
        "tutorial_over_engine": ratio(seconds["tutorial"], seconds["engine"]),
        "samples_per_second": {f"{trainers} trainers": values for trainers, values in throughput.items()},
        "throughput_2_over_1": ratio(throughput[2], throughput[1]),
    }


if __name__ == "__main__":
    main()
