"""What sharding costs and saves: steps per second of fsdp and tensor_parallel beside a bare torch script that does the
same (bench/scripts/sharded.py), and a trainer's peak of parameters, gradients and optimizer state, fully sharded beside
DDP.

Run: python -m bench.sharded rate memory [--rounds 5]
"""

import argparse
import os
import socket
import subprocess
import sys
from typing import Any

from bench.measuring import alternate, finish, ratio, save, served_home, wait_until, wait_warm
from engine.home import ROOT, Home
from engine.launch import launch
from engine.registry import experiment
from engine.store import Launch, Reader, Store

WARM_UP = 10
"""Steps that are not counted."""
SHARED: dict[str, Any] = {"threads_per_rank": 1, "device": "cpu", "evaluate_every": 0}
RATES: dict[str, tuple[dict[str, Any], int]] = {
    "fsdp": (SHARED | {"epochs": 1}, 384),
    "tensor_parallel": (SHARED | {"steps": 384}, 384),
}
"""Changes of the presets gpt and quick, and the steps of a run."""
PRESETS = {"fsdp": "gpt", "tensor_parallel": "quick"}
MEMORY = {"trainers": 4, "batch_size": 1, "precision": "fp32", "prefetch": 0, "threads_per_rank": 1, "device": "cpu"}


def steps_per_second(home: Home, name: str) -> float:
    """Return the rate of a run's first rank, after its first steps."""
    changes, _ = RATES[name]
    run = finish(home, name, PRESETS[name], changes)
    with Reader.open(home) as reader:
        times = next(iter(reader.curves.series(run.id, ["train/loss"]))).times_s
    return float((len(times) - WARM_UP) / (times[-1] - times[WARM_UP - 1]))


def bare_steps_per_second(name: str) -> float:
    """Return the rate of the bare script in two processes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    command = [sys.executable, "bench/scripts/sharded.py", name, address]
    surroundings = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    ranks = [
        subprocess.Popen(
            [*command, str(rank), str(RATES[name][1])], cwd=ROOT, env=surroundings, stdout=subprocess.PIPE, text=True
        )
        for rank in range(2)
    ]
    first, _ = [rank.communicate()[0] for rank in ranks]
    return float(first)


def rate(home: Home, rounds: int) -> dict[str, Any]:
    """Return each side's steps per second by round, and the ratios."""
    found: dict[str, Any] = {}
    for name in RATES:
        sides = alternate(
            rounds,
            parallab=lambda name=name: steps_per_second(home, name),  # type: ignore[misc]
            bare=lambda name=name: bare_steps_per_second(name),  # type: ignore[misc]
        )
        found[name] = {"parallab ÷ bare": ratio(sides["parallab"], sides["bare"]), "steps_per_second": sides}
    return found


def state_mb(home: Home, stage: str) -> list[float]:
    """Return each trainer's peak of the state in the second step of the large GPT, whose run ends after it."""
    wait_warm(home)
    config = experiment("fsdp").configure("gpt_base", MEMORY | {"stage": stage})
    run_id = launch(home, Launch("fsdp", config.model_dump(mode="json"), "bench", "gpt_base"), timeout_s=30)
    found: list[float] = []

    def measured() -> bool:
        with Reader.open(home) as reader:
            series = reader.curves.series(run_id, ["perf/memory_state"])
            found[:] = [each.values[1] for each in series if len(each.values) > 1]
        return len(found) == MEMORY["trainers"]

    wait_until(measured, 600, f"step 2 of run {run_id}")
    with Store.open(home) as store:
        store.runs.cancel(run_id, by="bench")
    return found


def memory(home: Home, rounds: int) -> dict[str, Any]:
    """Return the largest trainer's peak by stage, and fully sharded ÷ DDP. It is exact: rounds don't matter."""
    stages = {stage: state_mb(home, stage) for stage in ("ddp", "sharded", "full")}
    most = {stage: max(each) for stage, each in stages.items()}
    return {"state_mb": stages, "of_ddp": {stage: round(size / most["ddp"], 4) for stage, size in most.items()}}


PARTS = {"rate": rate, "memory": memory}


def main() -> None:
    """Measure, print and save."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("parts", nargs="+", choices=[*PARTS])
    options.add_argument("--rounds", type=int, default=5)
    given = options.parse_args()
    with served_home() as home:
        for part in given.parts:
            save(f"sharded_{part}", PARTS[part](home, given.rounds))


if __name__ == "__main__":
    main()
