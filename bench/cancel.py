"""Seconds from a cancel to nothing left of a run with 16 ranks, one of them stopped with SIGSTOP and one that ignores
SIGTERM.

Run: python -m bench.cancel [--cancels 20] [--ranks 16]
"""

import argparse
import os
import signal
import statistics
import sys
import time
from pathlib import Path

from bench.measuring import save, served_home, wait_until, wait_warm
from engine.home import Home
from engine.launch import launch
from engine.registry import experiment
from engine.store import Reader, Store
from engine.store.records import Run
from engine.system.cleanup import tree
from engine.system.shm_segments import SHARED, SHARED_PREFIXES

LIMIT_S = 30.0


def main() -> None:
    """Measure, print and save."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--cancels", type=int, default=20)
    options.add_argument("--ranks", type=int, default=16)
    chosen = options.parse_args()
    deaf = f"trainer{chosen.ranks}"
    os.environ |= {"DEAF_ROLE": deaf, "PYTHONPATH": str(Path(__file__).parent / "deaf")}
    figures: list[dict[str, float]] = []
    with served_home() as home:
        for _ in range(chosen.cancels):
            figures.append(one_cancel(home, chosen.ranks, deaf))
            print(f"{figures[-1]['gone_s']:.2f}", end=" ", file=sys.stderr, flush=True)
    gone = [each["gone_s"] for each in figures]
    save(
        "cancel",
        {
            "cancels": chosen.cancels,
            "ranks": chosen.ranks,
            "gone_s": gone,
            "cancelled_s": [each["cancelled_s"] for each in figures],
            "median_s": round(statistics.median(gone), 2),
            "p95_s": round(percentile(gone, 95), 2),
            "killed_at_deadline": sum(each["killed_at_deadline"] for each in figures),
            "segments_left": len(segments()),
        },
    )


def one_cancel(home: Home, ranks: int, deaf: str) -> dict[str, float]:
    """Launch a run, stop one of its ranks, cancel it, and return the seconds until its processes were gone and until it
    said so.
    """
    wait_warm(home)
    settings = {"dataset": "synthetic", "trainers": ranks, "epochs": 1000, "device": "cpu", "threads_per_rank": 1}
    run_id = launch(home, "hogwild", experiment("hogwild").configure(None, settings), owner="bench", timeout_s=30)
    wait_until(lambda: now(home, run_id).progress_done > 0, 120, f"run {run_id} to train")
    worker = now(home, run_id).worker
    assert worker is not None
    with Reader.open(home) as reader:
        pids = {row.role: row.pid for row in reader.details.ranks(run_id) if row.pid}
    assert ignores_sigterm(pids[deaf]), f"{deaf} should ignore SIGTERM"
    os.kill(pids["trainer2"], signal.SIGSTOP)
    with Store.open(home) as store:
        store.runs.cancel(run_id, by="bench")
    began = time.monotonic()
    wait_until(lambda: not tree(worker), LIMIT_S, f"the processes of run {run_id} to be gone")
    gone = time.monotonic() - began
    wait_until(lambda: not now(home, run_id).active, LIMIT_S, f"run {run_id} to be cancelled")
    run = now(home, run_id)
    assert run.status == "cancelled" and run.cause.startswith("Cancelled by bench."), f"{run.status}: {run.cause}"
    return {
        "gone_s": round(gone, 2),
        "cancelled_s": round(time.monotonic() - began, 2),
        "killed_at_deadline": float("was killed" in run.cause),
    }


def now(home: Home, run_id: int) -> Run:
    """Return the run as it is."""
    with Reader.open(home) as reader:
        return reader.runs.one(run_id)


def ignores_sigterm(pid: int) -> bool:
    """Say whether the kernel drops a SIGTERM to a process."""
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("SigIgn:"))
    return bool(int(line.split()[1], 16) >> (signal.SIGTERM - 1) & 1)


def segments() -> set[str]:
    """Return the names of the shared memory that torch and multiprocessing have made on this machine."""
    return {path.name for path in SHARED.iterdir() if path.name.startswith(SHARED_PREFIXES)}


def percentile(values: list[float], share: int) -> float:
    """Return the least value that `share` percent of all values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * share // 100) - 1)]


if __name__ == "__main__":
    main()
