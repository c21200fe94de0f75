"""What presets reach: test accuracy on MNIST, and reward and seconds of DPPO, over their seeds.

Run: python -m bench.accuracy hogwild sync_sgd sync_sgd_published async_sgd async_sgd_published server_32 server_64
cartpole pendulum
"""

import argparse
import statistics
from dataclasses import dataclass, field
from typing import Any

from bench.measuring import finish, last_values, save, served_home
from engine.home import Home
from engine.store import Reader


@dataclass(frozen=True)
class Case:
    """A preset, its metric, and the seeds."""

    experiment: str
    preset: str
    changes: dict[str, Any] = field(default_factory=dict)
    seeds: int = 3
    metric: str = "test/accuracy"


SERVED: dict[str, Any] = {"evaluate_every": 0, "device": "cpu"}
SHARED = SERVED | {"transport": "shared_memory"}
REWARD: dict[str, Any] = {"changes": {"render_every_s": 0}, "metric": "test/episodic_return"}
CASES = {
    "hogwild": Case("hogwild", "published"),
    "sync_sgd": Case("sync_sgd", "tuned"),
    "sync_sgd_published": Case("sync_sgd", "published"),
    "async_sgd": Case("async_sgd", "tuned", SERVED),
    "async_sgd_published": Case("async_sgd", "published", SERVED),
    "server_32": Case("parameter_server", "published", SHARED | {"batch_size": 32}),
    "server_64": Case("parameter_server", "published", SHARED | {"batch_size": 64}),
    "cartpole": Case("dppo", "quick", seeds=10, **REWARD),
    "pendulum": Case("dppo", "tuned", seeds=5, **REWARD),
}


def reached(home: Home, case: Case) -> dict[str, Any]:
    """Return the last value and the seconds of each seed, and the last curve: of sync_sgd after rounds 4, 8 and 12."""
    values, seconds, curves = [], [], []
    for seed in range(1, case.seeds + 1):
        run = finish(home, case.experiment, case.preset, {**case.changes, "seed": seed}, timeout_s=7_200)
        values.append(round(last_values(home, run)[case.metric], 4))
        seconds.append(run.execution_time_s or 0.0)
        with Reader.open(home) as reader:
            curves.append([value for each in reader.curves.series(run.id, [case.metric]) for value in each.values])
        print(case, values[-1], f"{seconds[-1]:.1f} s", flush=True)
    spent = {"execution_time_s": seconds, "median_s": statistics.median(seconds)}
    return {
        "metric": case.metric,
        "values": values,
        "mean": round(statistics.mean(values), 3),
        "curves": curves,
    } | spent


def main() -> None:
    """Run each case to its end, print and save."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("cases", nargs="+", choices=[*CASES])
    with served_home() as home:
        for name in options.parse_args().cases:
            save(f"accuracy_{name}", reached(home, CASES[name]))


if __name__ == "__main__":
    main()
