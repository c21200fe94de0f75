"""A lab with a cluster, and runs on it as its store would have them; no Slurm is needed."""

import json
from dataclasses import replace
from pathlib import Path

from engine.home import Home
from engine.launch import launch
from engine.launch_options import LaunchOptions
from engine.registry import experiment
from engine.store import Launch, Store
from engine.store.queue.cluster_jobs import ClusterJob, JobState

NAME = "lab"
NOWHERE = Path("/nowhere")
ON_IT = LaunchOptions(target=NAME)


def write(home: Home, nodes: int = 2, shared: Path = NOWHERE, **keys: object) -> None:
    """Write the home's clusters.toml, with one cluster whose nodes have 2 cores."""
    lines = [f"[{NAME}]", f'shared = "{shared}"', "cores = 2", f"nodes = {nodes}", "trusted = true"]
    home.clusters.write_text("\n".join([*lines, *(f"{key} = {value}" for key, value in keys.items())]))
    home.clusters.chmod(0o600)


def queued(home: Home, nodes: int = 1, owner: str = "Ada") -> int:
    """Queue one quick run for the cluster."""
    name = "hogwild" if nodes == 1 else "parameter_server"  # the ranks of Hogwild! share memory
    config = experiment(name).configure("quick")
    return launch(home, Launch(name, config.model_dump(mode="json"), owner, "quick", terms=replace(ON_IT, nodes=nodes)))


def submitted(store: Store, run_id: int, state: str = "PENDING", reason: str = "Resources", nodes: str = "") -> None:
    """Submit a queued run's job, which squeue then lists in a state."""
    assert store.cluster_jobs.plan(run_id, NAME, f"token-{run_id}", str(NOWHERE))
    store.cluster_jobs.submitted(job_of(store, run_id), str(100 + run_id))
    store.cluster_jobs.seen([(job_of(store, run_id), JobState(str(100 + run_id), state, reason, nodes))])


def started(store: Store, run_id: int, nodes: str = "n1") -> None:
    """Let a submitted run's job begin it on its nodes."""
    job = job_of(store, run_id)
    store.cluster_jobs.seen([(job, JobState(job.job_id, "RUNNING", "", nodes))])
    about = {"host": "n1", "cpu": "Node", "cores": 2, "gpus": [], "slurm": {"job_id": job.job_id}}
    store.cluster_jobs.begin(run_id, "on lab", json.dumps(about), "[0, 1]", "[]")


def job_of(store: Store, run_id: int) -> ClusterJob:
    """Return a run's job."""
    found = store.read.cluster_jobs.of(run_id)
    assert found is not None
    return found
