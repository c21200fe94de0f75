"""Runs on a real Slurm of two nodes on this machine: seconds from a job's RUNNING to its first point in the store, and
how long after it was recorded each record is there.

With Slurm installed: python -m bench.cluster_start [--rounds 5]
"""

import argparse
import statistics
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.measuring import save, wait_until
from engine.home import Home
from engine.jobs.records import tail_of
from engine.store import Reader
from engine.store.records import ENDED
from tests.cluster.lab import ClusterLab
from tests.cluster.slurm import SlurmLab

LOOK_S = 0.05
WATCHED_S = 15.0
"""How long a run's records are watched."""
WITHIN_S = 240.0


def main() -> None:
    """Measure, print and save."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=5)
    given = options.parse_args()
    starts: dict[int, list[dict[str, float]]] = {1: [], 2: []}
    lags: list[float] = []
    with tempfile.TemporaryDirectory(prefix="parallab-bench-") as name:
        folder = Path(name)
        for part in ("home", "shared", "slurm"):
            (folder / part).mkdir()
        with (
            SlurmLab(folder / "slurm") as slurm,
            ClusterLab(Home(folder / "home").create(), slurm, folder / "shared") as lab,
        ):
            for _ in range(given.rounds):
                for nodes, found in starts.items():
                    found.append(_started(lab, nodes, lags))
    figures = {
        "seconds": {
            f"nodes_{nodes}": {part: _spread([each[part] for each in found]) for part in found[0]}
            for nodes, found in starts.items()
        },
        "records": len(lags),
        "lag_s": {"median": round(statistics.median(lags), 2), "p95": round(sorted(lags)[int(0.95 * len(lags))], 2)}
        | {"max": round(max(lags), 2)},
    }
    save("cluster_start", figures)


def _started(lab: ClusterLab, nodes: int, lags: list[float]) -> dict[str, float]:
    """Launch a run, wait for its first point, watch its records for a while, and cancel it."""
    began = time.time()
    run_id = lab.launch("sync_sgd", nodes, rounds=100_000, evaluate_every=1000)
    with Reader.open(lab.home, timeout_s=30) as reader:
        wait_until(lambda: "RUNNING" in lab.slurm.jobs().values(), WITHIN_S, "the job to run")
        running = time.time()
        wait_until(lambda: bool(reader.curves.series(run_id, ["train/loss"])), WITHIN_S, "the first point")
        first = time.time()
        lags += _lags(reader, run_id)
    lab.command("cancel", str(run_id))
    lab.wait_for(run_id, *ENDED)
    lab.ended(run_id)
    return {"launch_to_running": running - began, "running_to_first_point": first - running}


def _lags(reader: Reader, run_id: int) -> list[float]:
    """Return how many seconds after its line was written the store first had each record of the next seconds."""
    job = reader.cluster_jobs.of(run_id)
    assert job
    seen_at: dict[int, float] = {}
    before, end = job.sequence, time.monotonic() + WATCHED_S
    while time.monotonic() < end:
        now_there = reader.cluster_jobs.of(run_id)
        assert now_there
        for sequence in range(before + 1, now_there.sequence + 1):
            seen_at[sequence] = time.time()
        before = max(before, now_there.sequence)
        time.sleep(LOOK_S)
    lines = tail_of((Path(job.folder) / "records").read_bytes(), 0).lines
    written = {line.sequence: datetime.fromisoformat(line.at).replace(tzinfo=UTC).timestamp() for line in lines}
    return [at - written[sequence] for sequence, at in seen_at.items()]


def _spread(values: list[float]) -> dict[str, Any]:
    return {"median": round(statistics.median(values), 2), "min": round(min(values), 2), "max": round(max(values), 2)}


if __name__ == "__main__":
    main()
