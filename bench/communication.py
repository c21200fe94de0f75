"""What synchronous SGD reaches with less communication: PowerSGD, and DiLoCo on a small GPT, over seeds.

Run: python -m bench.communication powersgd diloco
"""

import argparse
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from bench.measuring import finish, last_values, save, served_home
from engine.home import Home

SEEDS = (1, 2, 3)
IMAGES: dict[str, Any] = {"dataset": "mnist", "rounds": 1, "batch_size": 64, "evaluate_every": 0}
TEXT: dict[str, Any] = {
    "average_every": 50,
    "rounds": 16,
    "optimizer": "adamw",
    "learning_rate": 0.002,
    "evaluate_every": 0,
}
FOUR_BITS: dict[str, Any] = {
    "average_every": 8,
    "rounds": 100,
    "compression": "e3m0",
    "outer_learning_rate": 1.0,
    "outer_momentum": 0.2,
}
"""As many steps and fewer bytes than every 50 steps whole."""


@dataclass(frozen=True)
class Case:
    """A preset, its metric, and what is compared: settings by name, the baseline first."""

    preset: str
    metric: str
    compared: dict[str, dict[str, Any]]


CASES = {
    "powersgd": Case(
        "compressed",
        "test/accuracy",
        {
            "none": IMAGES | {"compression": "none"},
            "rank 2": IMAGES | {"compression_rank": 2},
            "rank 1": IMAGES | {"compression_rank": 1},
        },
    ),
    "diloco": Case(
        "gpt",
        "test/loss",
        {
            "gradients": TEXT | {"sync": "gradients"},
            "diloco": TEXT | {"sync": "diloco"},
            "diloco of 4 bits": TEXT | FOUR_BITS | {"sync": "diloco"},
        },
    ),
}


def reached(home: Home, case: Case) -> dict[str, Any]:
    """Return for each name the metric of each seed, the MB that a trainer sent, and the bytes as a share of the
    baseline's.
    """
    found: dict[str, Any] = {}
    for name, changes in case.compared.items():
        values, sent = [], []
        for seed in SEEDS:
            last = last_values(home, finish(home, "sync_sgd", case.preset, changes | {"seed": seed}, timeout_s=7_200))
            values.append(round(last[case.metric], 4))
            sent.append(last["perf/exchanged"])
            print(case.preset, name, seed, values[-1], f"{sent[-1]:.4g} MB", flush=True)
        found[name] = {"values": values, "mean": round(fmean(values), 4), "exchanged_mb": fmean(sent)}
    base = next(iter(found.values()))["exchanged_mb"]
    for each in found.values():
        each["of_baseline"] = round(each["exchanged_mb"] / base, 5)
    return {"metric": case.metric} | found


def main() -> None:
    """Run each case to its end, print and save."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("cases", nargs="+", choices=[*CASES])
    with served_home() as home:
        for name in options.parse_args().cases:
            save(f"communication_{name}", reached(home, CASES[name]))


if __name__ == "__main__":
    main()
