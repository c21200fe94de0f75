"""What a cluster asks of the console's machine: points that the runner takes from 32 files at once, bytes per point,
and the time of one squeue for 10, 100 and 1,000 jobs of a real Slurm.

Run: python -m bench.cluster_scale [--files 32] [--records 40] [--points 500]
"""

import argparse
import os
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from bench.measuring import save
from engine.home import Home
from engine.jobs import slurm
from engine.jobs.job_folder import JobFolder
from engine.jobs.record_file import RecordFile
from engine.launch import launch
from engine.launch_options import Terms
from engine.recorder import Point
from engine.registry import experiment
from engine.runner.cluster_supervisor import ClusterJobs
from engine.store import Store
from engine.store.queue.cluster_jobs import JobState
from engine.store.records import RankBatch
from tests.cluster.slurm import SlurmLab

JOBS = (10, 100, 1000)
ROUNDS = 5


def ingest(files: int, records: int, points: int) -> dict[str, float]:
    """Return how fast the runner stores the records of so many files, each record with so many points."""
    with tempfile.TemporaryDirectory(prefix="parallab-bench-") as name:
        home = Home(Path(name) / "home").create()
        (Path(name) / "shared").mkdir()
        home.clusters.write_text(f'[lab]\nshared = "{name}/shared"\ncores = 2\nmax_jobs = 1000\n')
        home.clusters.chmod(0o600)
        config = experiment("reference").configure("quick")
        runs = [launch(home, "reference", config, owner="bench", terms=Terms(target="lab")) for _ in range(files)]
        slurm.submit = lambda target, run, job, nodes: str(run.id)
        slurm.states = dict
        with Store.open(home) as store:
            jobs = ClusterJobs(home, store)
            while len(found := store.read.cluster_jobs.all()) < files:
                jobs.step()
            size = 0
            for job in found:
                file = RecordFile(JobFolder(Path(job.folder)))
                file.begin({"host": "n1"}, [0], [], 1)
                file.running(1.0)
                for record in range(records):
                    steps = range(record * points // 4, (record + 1) * points // 4)
                    curve = [Point("train/loss", step, step / 7, step / 10, step / 100) for step in steps]
                    file.write([RankBatch(rank, curve) for rank in range(4)], [], (record, records, "samples"), [], [])
                size += JobFolder(Path(job.folder)).records.stat().st_size
            began = time.monotonic()
            jobs.step()
            seconds = time.monotonic() - began
            stored = sum(
                len(series.values) for run_id in runs for series in store.read.curves.series(run_id, ["train/loss"])
            )
    total = files * records * (points // 4) * 4
    assert stored == total, f"{stored:,} of {total:,} points are in the store"
    return {"points_per_second": total / seconds, "bytes_per_point": size / total, "points": total}


def squeue() -> dict[str, dict[str, float]]:
    """Return the seconds of submitting a job, and of one squeue, at so many waiting jobs of a real Slurm."""
    found = {}
    with tempfile.TemporaryDirectory(prefix="parallab-bench-") as name, SlurmLab(Path(name)) as lab:
        count = 0
        os.environ |= lab.environment
        for jobs in JOBS:
            began = time.monotonic()
            for _ in range(jobs - count):
                lab.submit("#!/bin/sh\nsleep 3600\n", f"--job-name={slurm.PREFIX}-1-{count}")
                count += 1
            each = (time.monotonic() - began) / max(1, jobs)
            seconds = []
            for _ in range(ROUNDS):
                began = time.monotonic()
                listed: dict[str, JobState] = slurm.states()
                seconds.append(time.monotonic() - began)
            assert len(listed) == count, f"{len(listed)} of {count} jobs are listed"
            found[str(jobs)] = {"squeue_s": median(seconds), "sbatch_s": each}
        lab.run("scancel", "--user=root")
    return found


def main() -> None:
    """Measure and save."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--files", type=int, default=32)
    options.add_argument("--records", type=int, default=40)
    options.add_argument("--points", type=int, default=500)
    asked = options.parse_args()
    states = slurm.states
    rounds = [ingest(asked.files, asked.records, asked.points) for _ in range(ROUNDS)]
    slurm.states = states
    result: dict[str, Any] = {
        "ingest": {key: median(one[key] for one in rounds) for key in rounds[0]},
        "points_per_second": sorted(one["points_per_second"] for one in rounds),
        "slurm": squeue(),
    }
    save("cluster_scale", result)


if __name__ == "__main__":
    main()
