"""Synchronous SGD on MNIST, one round of each trainer's part, one thread a rank: engine against tutorial and DDP, and
what synchronizing costs.

Seconds a pass over the data, from all ranks ready to all done, the start of the tutorial's processes of the round
included (the published code starts them in each round) and one test at the end for all. Run: python -m
bench.sync_sgd_speed [--rounds 5]
"""

import argparse
import statistics
from collections.abc import Callable
from typing import Any

from bench.measuring import alternate, finish, last_values, ratio, save, served_home
from engine.home import Home
from engine.store import Reader
from engine.store.records import Run

COMMON: dict[str, Any] = {
    "trainers": 2,
    "threads_per_rank": 1,
    "device": "cpu",
    "evaluate_every": 0,
    "checkpoint_every_s": 0,
    "rounds": 2,
}
SIDES: dict[str, dict[str, Any]] = {
    "tutorial": {"variant": "tutorial", "start_method": "spawn"},
    "engine": {},
    "gradients": {"sync": "gradients"},
    "ddp": {"sync": "ddp"},
}
SYNCHRONIZING = ("communicate", "update")


def main() -> None:
    """Measure, print and save."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--dataset", default="mnist", help="another one to try the benchmark itself")
    given = options.parse_args()
    with served_home() as home:
        figures = measure(home, given.rounds, COMMON | {"dataset": given.dataset})
    save("sync_sgd_speed", figures)


def measure(home: Home, rounds: int, common: dict[str, Any]) -> dict[str, Any]:
    """Return the ratios and shares with the figures behind them."""
    shares: dict[str, list[float]] = {name: [] for name in SIDES}

    def side(name: str) -> Callable[[], float]:
        def seconds_a_pass() -> float:
            run = finish(home, "sync_sgd", None, common | SIDES[name])
            shares[name].append(synchronizing_percent(home, run))
            return last_values(home, run)["perf/execution_time_s"] / common["rounds"]

        return seconds_a_pass

    seconds = alternate(rounds, **{name: side(name) for name in SIDES})
    return {
        "rounds": rounds,
        "config": common,
        "seconds_a_pass": seconds,
        "tutorial_over_engine": ratio(seconds["tutorial"], seconds["engine"]),
        "gradients_over_engine": ratio(seconds["gradients"], seconds["engine"]),
        "ddp_over_engine": ratio(seconds["ddp"], seconds["engine"]),
        "ddp_over_gradients": ratio(seconds["ddp"], seconds["gradients"]),
        "synchronizing_percent": {
            name: [round(value, 3) for value in shares[name]] for name in ("engine", "gradients")
        },
        "median_synchronizing_percent": {
            name: round(statistics.median(shares[name]), 3) for name in ("engine", "gradients")
        },
    }


def synchronizing_percent(home: Home, run: Run) -> float:
    """Return the share of all trainers' wall time in communicate and update; waiting for slower trainers is apart."""
    with Reader.open(home) as reader:
        phases = reader.details.phases(run.id).values()
    spent = sum(each.get(name, 0.0) for each in phases for name in SYNCHRONIZING)
    return 100 * spent / sum(sum(each.values()) for each in phases)


if __name__ == "__main__":
    main()
