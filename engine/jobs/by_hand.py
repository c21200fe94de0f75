"""Jobs that a person starts with torchrun on each host, for machines without Slurm: docs/cluster.md says how.

    torchrun --nnodes 2 --node-rank K --nproc-per-node 1 --max-restarts 0 --master-addr HOST --master-port PORT \
        -m engine.jobs.by_hand FOLDER

Torch-free: the host with rank 0 becomes the worker, the others its agents.
"""

import os
import sys
from pathlib import Path

from engine.jobs import slurm
from engine.jobs.job import run_job, serve_agent
from engine.jobs.job_folder import JobFolder
from engine.store.queue.cluster_jobs import ClusterJob

BY_HAND = "by hand"
"""Stands for Slurm's id of such a job."""


def command(job: ClusterJob, nodes: int) -> str:
    """Return what to type on each host."""
    return (
        f"torchrun --nnodes {nodes} --node-rank K --nproc-per-node 1 --max-restarts 0 --master-addr HOST "
        f"--master-port PORT -m {__name__} {job.folder}"
    )


def ask_to_stop(job: ClusterJob) -> None:
    """Tell the job's worker to end its run."""
    JobFolder(Path(job.folder)).ask_to_stop()


def main() -> None:
    """Take part in a job as torchrun's variables say."""
    for name in slurm.inputs():  # torchrun within an allocation of Slurm: its nodes are not those of this job
        del os.environ[name]
    path, rank, world = sys.argv[1], int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    wanted = JobFolder(Path(path)).spec().nodes
    if world != wanted:
        sys.exit(f"This run is for {wanted} hosts, but torchrun was started for {world}. Use --nnodes {wanted}.")
    if rank == 0:
        run_job(path, world)
    else:
        serve_agent(path)


if __name__ == "__main__":
    main()
