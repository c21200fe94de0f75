"""A run's job on a cluster: what is known of it, and why it waits, in words. Torch-free and pure."""

from engine.store.queue.cluster_jobs import ClusterJob, JobState
from engine.store.records import Run

REASONS = {
    "Resources": "no free nodes",
    "Priority": "behind other jobs",
    "BeginTime": "starts at a set time",
    "Dependency": "another job must end first",
    "JobHeldUser": "held with scontrol",
    "JobHeldAdmin": "held by the cluster's admin",
    "ReqNodeNotAvail": "its nodes are down or reserved",
    "NodeDown": "its nodes are down",
    "PartitionDown": "the partition is down",
}
"""Slurm's common reasons in other words; the rest is shown as it is."""


def cluster_wait(target: str, job: ClusterJob | None) -> str:
    """Return why a queued run waits on a cluster: `waits on lab: Resources (no free nodes)`."""
    if job is None or not job.job_id:
        return f"to be submitted to {target}"
    if job.state in ("", "PENDING"):
        return f"waits on {target}{f': {in_words(job.reason)}' if job.reason else ''}"
    if job.state in ("CONFIGURING", "RUNNING"):
        return f"starts on {target}"
    return f"waits on {target}: its job is {job.state}"


def in_words(reason: str) -> str:
    """Return Slurm's reason, a common one with what it means."""
    known = REASONS.get(reason.partition(",")[0])
    return f"{reason} ({known})" if known else reason


def job_state(run: Run, job: ClusterJob | None) -> JobState | None:
    """Return what is known of a run's job, None if it has none: Slurm's state until its end, then only its id and
    nodes.
    """
    if job is not None and run.active:
        return JobState(job.job_id, job.state, job.reason, job.nodes)
    if job is not None:
        return JobState(job.job_id, "", "", job.nodes)
    slurm = run.environment.get("slurm") if run.target else None
    if not isinstance(slurm, dict):
        return None
    return JobState(str(slurm.get("job_id", "")), "", "", str(slurm.get("job_nodelist", "")))
