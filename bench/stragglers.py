"""Gradients per second with all of 4 trainers sleeping 50 ms a step and one of them 100 ms: asynchronous against
synchronous.

Run: python -m bench.stragglers [--rounds 5] [--batch-size 16]
"""

import argparse
from typing import Any

from bench.measuring import alternate, finish, ratio, save, served_home
from engine.home import Home
from engine.store import Reader
from engine.store.records import Run

SETTINGS: dict[str, Any] = {
    "dataset": "digits",
    "trainers": 4,
    "sleep_ms": 50,
    "slow_trainer": 4,
    "slow_sleep_ms": 100,
    "evaluate_every": 0,
    "threads_per_rank": 1,
    "device": "cpu",
}


def main() -> None:
    """Measure, print and save."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument(
        "--batch-size",
        type=int,
        default=16,
        help="samples in a mini-batch; 60 epochs of 64 take as many steps as 15 of 16",
    )
    chosen = options.parse_args()
    rounds, settings = (
        chosen.rounds,
        SETTINGS | {"batch_size": chosen.batch_size, "epochs": max(1, 15 * chosen.batch_size // 16)},
    )
    with served_home() as home:

        def rate(name: str, **more: Any) -> float:
            return gradients_per_second(home, finish(home, name, None, settings | more))

        rates = alternate(
            rounds,
            asynchronous=lambda: rate("async_sgd"),
            synchronous=lambda: rate("parameter_server", batch_update_size=4, learning_rate=0.001),
        )
    save(
        "stragglers",
        {
            "rounds": rounds,
            "gradients_per_second": rates,
            "asynchronous_over_synchronous": ratio(rates["asynchronous"], rates["synchronous"]),
        },
    )


def gradients_per_second(home: Home, run: Run) -> float:
    """Return the gradients pushed per second for as long as all trainers push: the fast ones of an asynchronous run are
    done first.
    """
    with Reader.open(home) as reader:
        times = [series.times_s for series in reader.curves.series(run.id, ["train/loss"])]
    until = min(max(own) for own in times)
    return sum(time <= until for own in times for time in own) / until


if __name__ == "__main__":
    main()
