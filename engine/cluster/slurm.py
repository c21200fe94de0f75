"""Slurm: submit a job through submitit, and list and end this user's jobs by Slurm's own commands. Torch-free.

submitit reads states from accounting, which not every site has, so they come from `squeue`, one call for all jobs.
"""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from engine.cluster.job import run_job
from engine.cluster.probe import probe_node
from engine.cluster.targets import Cluster
from engine.errors import RunnerError
from engine.store.queue.cluster_jobs import ClusterJob, JobState
from engine.store.records import Run

PREFIX = "parallab"
COMMAND_S = 20.0
"""Time limit of a Slurm command."""
PROBE_LIMIT_MIN = 10
"""Time limit of the doctor's job."""
ACTIVE = frozenset(
    (
        *("PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING"),
        *("STAGE_OUT", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD", "REVOKED"),
    )
)
"""States of a job that is not over."""
EXPORTED = "PATH,HOME,USER,LANG,PARALLAB_HANG_S,PARALLAB_CONFINEMENT"
"""Variables of the runner that a job gets; others can hold secrets."""
INPUTS = ("SLURM", "SBATCH_", "SALLOC_", "SRUN_", "SQUEUE_", "SCANCEL_", "SACCT_", "SCONTROL_", "SINFO_")
"""Prefixes of variables that Slurm's commands read. They would override the options that submitit writes into the job's
script, such as the partition and the exported variables, and filter the jobs of squeue and scancel.
"""
KEPT = frozenset(("SLURM_CONF", "SLURM_JWT", "SLURM_SACK_SOCKET"))
"""How a command reaches Slurm, and proves who asks."""
_FORMAT = "%i|%T|%r|%N|%j"
_TRANSIENT = (
    *("unable to contact", "timed out", "connection refused", "zero bytes", "temporarily", "communication"),
    *("unknown host", "resolve_ctls", "no route to host", "network is unreachable", "unable to establish"),
)
"""Signs in the words of sbatch that the controller could not be asked, rather than that it refused."""


class SlurmRefused(RunnerError):
    """Slurm does not accept a job as it is."""


class SlurmUnavailable(RunnerError):
    """Slurm does not answer."""


def inputs() -> list[str]:
    """Return the names of this process's variables that would change what Slurm's commands do."""
    return [name for name in os.environ if name.startswith(INPUTS) and name not in KEPT]


def submit(cluster: Cluster, run: Run, job: ClusterJob, nodes: int) -> str:
    """Submit a run's job and return Slurm's id; raises SlurmRefused, SlurmUnavailable."""
    asked = {
        "job_name": name_of(job),
        "comment": f"Parallab run {run.id} of {re.sub('[^A-Za-z0-9 @._-]', '?', run.owner)}",
        "time": cluster.time_limit_min,
        "cpus_per_task": max(1, min(cluster.cores, -(-run.demand.cores // nodes))),
        "gpus_per_node": -(-run.demand.gpus // nodes) or None,
        "exclusive": True if cluster.exclusive or run.exclusive or nodes > 1 else None,
    }
    return _submit(cluster, nodes, Path(job.folder), partial(run_job, nodes=nodes), asked)


def submit_probe(cluster: Cluster, name: str, folder: Path, nodes: int) -> str:
    """Submit a job that asks for as much as a run may and examines each of its nodes (engine/cluster/probe.py)."""
    asked = {
        "job_name": name,
        "comment": "Parallab doctor",
        "time": min(PROBE_LIMIT_MIN, cluster.time_limit_min),
        "cpus_per_task": cluster.cores,
        "gpus_per_node": cluster.gpus or None,
        "exclusive": True if cluster.exclusive or nodes > 1 else None,
        "use_srun": nodes > 1,
        "srun_args": [f"--cpus-per-task={cluster.cores}", "--export=ALL"],
    }
    return _submit(cluster, nodes, folder, probe_node, asked)


def _submit(
    cluster: Cluster, nodes: int, folder: Path, function: Callable[[str], None], asked: Mapping[str, object]
) -> str:
    from submitit import SlurmExecutor
    from submitit.core.utils import FailedJobError, FailedSubmissionError

    class Executor(SlurmExecutor):
        def _make_submission_command(self, submission_file_path: Path) -> list[str]:
            without = (f"--unset={name}" for name in inputs())
            return ["/usr/bin/env", *without, *super()._make_submission_command(submission_file_path)]

    if missing := [name for name in ("sbatch", "srun") if shutil.which(name) is None]:  # submitit looks for srun
        raise SlurmUnavailable(
            f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed on the runner's machine, "
            "so no job can be submitted: install Slurm's client there (Debian: slurm-client)."
        )
    usual = {
        "nodes": nodes,
        "ntasks_per_node": 1,
        "mem": f"{cluster.memory_gb}GB" if cluster.memory_gb else None,
        **{key: getattr(cluster, key) for key in ("partition", "account", "qos", "constraint")},
        "setup": [f"module load {module}" for module in cluster.modules] + _enter(cluster.checkout),
        "stderr_to_stdout": True,
        "use_srun": False,
        "additional_parameters": {"no-requeue": True, "export": EXPORTED},
    }
    options = {key: value for key, value in (usual | {**asked}).items() if value is not None}
    start = cluster.python_command if options["use_srun"] else f"exec {cluster.python_command}"
    try:
        executor = Executor(folder / "slurm", python=start)
        executor.update_parameters(**options)
        return str(executor.submit(function, str(folder)).job_id)
    except (FailedJobError, FailedSubmissionError, subprocess.CalledProcessError) as error:
        words = " ".join(str(error).split())[-400:]
        kind = SlurmUnavailable if any(sign in words.lower() for sign in _TRANSIENT) else SlurmRefused
        raise kind(f"Slurm did not accept the job: {words}") from error


def _enter(checkout: Path) -> list[str]:
    """Return the lines of a shell that enter the checkout, or end the job with the reason."""
    refusal = f"{checkout} on this node is not a checkout of Parallab: see the key checkout of clusters.toml."
    there = f"cd {shlex.quote(str(checkout))} && [ -f engine/cluster/job.py ]"
    return [f"{there} || {{ echo {shlex.quote(refusal)}; exit 1; }}"]


def states() -> dict[str, JobState]:
    """Return the state of each job of this user that Parallab named, by name; raises SlurmUnavailable."""
    found = {}
    for line in _call("squeue", "--noheader", "--states=all", f"--format={_FORMAT}", f"--user={os.getuid()}"):
        job_id, state, reason, nodes, name = line.split("|", 4)
        if name.startswith(f"{PREFIX}-"):
            found[name.strip()] = JobState(job_id, state, "" if reason == "None" else reason, nodes)
    return found


def states_in_accounting(job_ids: Sequence[str]) -> dict[str, JobState]:
    """Return the states of jobs that squeue no longer lists, by id; empty at a site without accounting."""
    if not job_ids or shutil.which("sacct") is None:
        return {}
    asked = ("sacct", "--allocations", "--noheader", "--parsable2", "--format=JobID,State,NodeList")
    try:
        lines = _call(*asked, f"--jobs={','.join(job_ids)}")
    except SlurmUnavailable:  # "Slurm accounting storage is disabled"
        return {}
    found = {}
    for line in lines:
        job_id, state, nodes = line.split("|", 2)
        found[job_id] = JobState(job_id, (state.split() or [""])[0], "", nodes)
    return found


def ask_to_stop(job: ClusterJob) -> None:
    """Send SIGTERM to the job's worker alone, which then ends its ranks; raises SlurmUnavailable."""
    _cancel(job, "--batch", "--signal=TERM")


def end(job: ClusterJob) -> None:
    """End the job with all its processes; raises SlurmUnavailable."""
    _cancel(job)


def end_by_name(name: str) -> None:
    """End a job with all its processes; raises SlurmUnavailable."""
    _call("scancel", "--quiet", f"--name={name}")


def name_of(job: ClusterJob) -> str:
    """Return the name of a job."""
    return f"{PREFIX}-{job.run_id}-{job.token}"


def _cancel(job: ClusterJob, *options: str) -> None:
    _call("scancel", "--quiet", *options, *([job.job_id] if job.job_id else [f"--name={name_of(job)}"]))


def _call(*command: str) -> list[str]:
    without = set(inputs())
    environment = {name: value for name, value in os.environ.items() if name not in without}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=COMMAND_S, stdin=subprocess.DEVNULL, env=environment
        )
    except FileNotFoundError:
        raise SlurmUnavailable(f"{command[0]} is not installed on the runner's machine.") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SlurmUnavailable(f"{command[0]} did not answer: {error}") from error
    if done.returncode != 0:
        raise SlurmUnavailable(f"{command[0]} failed: {' '.join(done.stderr.split())[-300:]}")
    return done.stdout.splitlines()
