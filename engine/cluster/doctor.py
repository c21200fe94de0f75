"""Checks of a cluster: its configuration, Slurm's commands, the shared folder, and a job that examines its nodes."""

import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from engine.cluster import slurm
from engine.cluster.node_checks import FileEcho, judge
from engine.cluster.probe import POLL_S, QUESTION, NodeAnswer, ProbeQuestion, appears, code_versions
from engine.cluster.slurm import ACTIVE, SlurmRefused, SlurmUnavailable
from engine.cluster.targets import Cluster, cluster
from engine.doctor.machine import Finding
from engine.errors import ConfigError, UnknownName, counted
from engine.home import Home
from engine.runtime.worker.job_folder import replace_file
from engine.store.queue.cluster_jobs import JobState
from engine.system.runner_process import runner_process

COMMANDS = ("sbatch", "srun", "squeue", "scancel")
SQUEUE_S = 1.0
"""Interval of squeue."""
ANSWER_S = 120.0
"""Time for the nodes' answers after the job's start; a node imports no torch."""
SETTLE_S = 10.0
"""Time without an answer after which the end of a job is believed: files can appear late."""
WAITS = ("Resources", "Priority", "None", "")
"""Slurm's reasons that only need patience."""


def examine_cluster(home: Home, name: str, wait_s: float) -> Iterator[Finding]:
    """Yield the finding of each check of a cluster as it completes; raises UnknownName.

    Waits up to `wait_s` seconds for the start of a job, which is cancelled then. Nothing is left in the shared folder.
    """
    try:
        target = cluster(home, name)
    except UnknownName:
        raise
    except ConfigError as error:
        yield Finding(
            "configuration",
            "fail",
            str(error),
            f"{'Correct' if home.clusters.exists() else 'Write'} {home.clusters}; docs/cluster.md lists its keys.",
        )
        return
    most = f"up to {target.nodes} nodes" if target.nodes > 1 else "one node"
    yield Finding(
        "configuration",
        "ok",
        f"{home.clusters}: {most} of {counted(target.cores, 'core')} and {counted(target.gpus, 'GPU')} for a run.",
    )
    checks: tuple[Callable[[], Finding | None], ...] = (
        _commands,
        _squeue,
        lambda: _runner(home),
        lambda: _shared_folder(target),
    )
    for check in checks:
        if finding := check():
            yield finding
            if finding.state == "fail":
                return
    yield from _on_nodes(target, wait_s)


def _commands() -> Finding:
    missing = [name for name in COMMANDS if shutil.which(name) is None]
    if missing:
        return Finding(
            "commands",
            "fail",
            f"Not on PATH: {', '.join(missing)}.",
            "Install Slurm's client on this machine (Debian: slurm-client), with the slurm.conf and munge key of the "
            "cluster, or run the console on a login node.",
        )
    return Finding("commands", "ok", f"{', '.join(COMMANDS)} are on PATH.")


def _squeue() -> Finding:
    try:
        found = slurm.states()
    except SlurmUnavailable as error:
        cure = "Check with scontrol ping: slurm.conf, munge on this machine, and the way to the controller."
        return Finding("squeue", "fail", f"Slurm does not answer: {error}", cure)
    active = sum(job.state in ACTIVE for job in found.values())
    return Finding("squeue", "ok", f"Slurm answers; waiting or running jobs of Parallab: {active}.")


def _runner(home: Home) -> Finding | None:
    """Return whether the runner, if there is one, has the same Slurm as this command: it submits the jobs."""
    process = runner_process(home)
    try:
        found = psutil.Process(process.pid).environ() if process else None
    except psutil.Error:
        return None
    if found is None:
        return None
    restart = "Restart it from a shell in which squeue works: python -m engine stop, then python -m engine serve."
    if missing := [name for name in COMMANDS if shutil.which(name, path=found.get("PATH", os.defpath)) is None]:
        sentence = f"Not on the PATH of the running runner, unlike this shell's: {', '.join(missing)}."
        return Finding("runner", "fail", sentence, restart)
    theirs, ours = (each.get("SLURM_CONF") or "the default" for each in (found, os.environ))
    if theirs != ours:
        return Finding("runner", "fail", f"SLURM_CONF of the running runner is {theirs}, here it is {ours}.", restart)
    return Finding("runner", "ok", "The running runner has the same Slurm as this command.")


def _shared_folder(target: Cluster) -> Finding:
    trial = target.jobs / f".doctor-{secrets.token_hex(4)}"
    try:
        target.jobs.mkdir(mode=0o700, exist_ok=True)
        trial.mkdir(mode=0o700)
        trial.rmdir()
    except OSError as error:
        return Finding(
            "shared folder",
            "fail",
            f"{target.jobs} can't be written from this machine: {error.strerror}.",
            f"Mount the shared file system here under the nodes' path, and give this user a folder: {target.shared}.",
        )
    about = target.jobs.stat()
    if about.st_mode & 0o022 or about.st_uid not in (os.geteuid(), 0):
        cure = "Jobs execute what lies there. Set shared to a folder of your own, and then: chmod 700 on this folder."
        return Finding("shared folder", "fail", f"{target.jobs} can be changed by other users.", cure)
    free = shutil.disk_usage(target.jobs).free / 1e9
    return Finding("shared folder", "ok", f"{target.jobs} is writable from this machine; {free:,.0f} GB free.")


@dataclass
class _NodeJob:
    """The doctor's job, seen from here."""

    target: Cluster
    name: str
    folder: Path
    nodes: int
    state: JobState | None = None
    answers: list[NodeAnswer] = field(default_factory=list)
    _pings: dict[int, tuple[float, float]] = field(default_factory=dict)
    """When a node was pinged, by this machine's clock and monotonic."""
    _echoes: dict[int, FileEcho] = field(default_factory=dict)
    _asked_at: float = float("-inf")

    @property
    def echoes(self) -> list[FileEcho | None]:
        return [self._echoes.get(rank) for rank in range(self.nodes)]

    @property
    def has_started(self) -> bool:
        return bool(self._pings) or (self.state is not None and self.state.state not in ("PENDING", "CONFIGURING"))

    @property
    def is_over(self) -> bool:
        return self.state is not None and self.state.state not in ACTIVE

    def look(self) -> None:
        """Read Slurm's word and the nodes' files, and answer the nodes."""
        if time.monotonic() - self._asked_at >= SQUEUE_S:
            self._asked_at = time.monotonic()
            with suppress(SlurmUnavailable):
                self.state = slurm.states().get(self.name, self.state)
        for rank in range(self.nodes):
            if rank not in self._pings and appears(self.folder / f"hello-{rank}"):
                self._pings[rank] = (time.time(), time.monotonic())
                replace_file(self.folder / f"ping-{rank}", "")
            elif rank in self._pings and rank not in self._echoes and appears(pong := self.folder / f"pong-{rank}"):
                at, began = self._pings[rank]
                delay = time.monotonic() - began
                self._echoes[rank] = FileEcho(delay, float(pong.read_text()) - at - delay / 2)
        paths = [self.folder / f"answer-{rank}.json" for rank in range(self.nodes)]
        if not self.answers and all(map(appears, paths)):
            self.answers = [NodeAnswer.model_validate_json(path.read_text()) for path in paths]

    def until(self, done: Callable[[], bool], seconds: float) -> bool:
        """Look until `done`; False if it takes longer."""
        end = time.monotonic() + seconds
        self.look()
        while not done() and time.monotonic() < end:
            time.sleep(POLL_S)
            self.look()
        return done()

    def last_words(self) -> str:
        found = sorted((self.folder / "slurm").glob("*_log.out"))
        words = found[0].read_text(errors="replace").split() if found else []
        return f" Its output ends: {' '.join(words[-40:])}" if words else " It has no output."

    def end(self) -> None:
        """See that the job has left Slurm, and remove its folder."""
        with suppress(SlurmUnavailable, OSError):
            if not self.until(lambda: self.is_over, SETTLE_S if self.answers else 0.0):
                slurm.end_by_name(self.name)
                self.until(lambda: self.is_over, SETTLE_S)
        shutil.rmtree(self.folder, ignore_errors=True)


def _on_nodes(target: Cluster, wait_s: float) -> Iterator[Finding]:
    nodes, token = min(2, target.nodes), secrets.token_hex(6)
    job = _NodeJob(target, f"{slurm.PREFIX}-doctor-{token}", target.jobs / f"doctor-{token}", nodes)
    question = ProbeQuestion(interface=target.interface or "", data_folder=str(target.data_folder), nodes=nodes)
    job.folder.mkdir(mode=0o700)
    try:
        replace_file(job.folder / QUESTION, question.model_dump_json())
        try:
            job_id = slurm.submit_probe(target, job.name, job.folder, nodes)
        except (SlurmRefused, SlurmUnavailable) as error:
            cure = "Compare the keys of the cluster with sinfo -s, and account and qos with the site's admins."
            yield Finding("submit", "fail", str(error), cure)
            return
        asked = "1 node" if nodes == 1 else f"{nodes} nodes"
        yield Finding(
            "submit", "ok", f"Slurm accepted job {job_id} for {asked}. Waiting up to {wait_s:.0f} s for its start."
        )
        yield from _outcome(target, job, job_id, wait_s)
    finally:
        job.end()


def _outcome(target: Cluster, job: _NodeJob, job_id: str, wait_s: float) -> Iterator[Finding]:
    began = time.monotonic()
    if not job.until(lambda: job.has_started, wait_s):
        yield _waits(job, job_id, wait_s)
        return
    where = f" on {job.state.nodes}" if job.state and job.state.nodes else ""
    yield Finding("start", "ok", f"Job {job_id} started{where} after {time.monotonic() - began:.1f} s.")
    if not job.until(lambda: bool(job.answers) or job.is_over, ANSWER_S) or not job.until(
        lambda: bool(job.answers), SETTLE_S
    ):
        yield _silent(target, job, job_id)
        return
    yield from judge(target, code_versions(), job.answers, job.echoes)


def _waits(job: _NodeJob, job_id: str, wait_s: float) -> Finding:
    reason = job.state.reason if job.state else ""
    text = f"Job {job_id} did not start in {wait_s:.0f} s, Slurm's reason: {reason or 'none'}. It was cancelled, and the nodes were not checked."  # noqa: E501
    if reason in WAITS:
        return Finding("start", "warn", text, "The cluster is busy: run this again with a longer --wait.")
    cure = "Look the reason up with man squeue (JOB REASON CODES), and compare the keys of the cluster with sinfo -s."
    return Finding("start", "fail", text, cure)


def _silent(target: Cluster, job: _NodeJob, job_id: str) -> Finding:
    state = job.state.state if job.state else "unknown"
    return Finding(
        "nodes",
        "fail",
        f"Not all nodes of job {job_id} (state {state}) have answered.{job.last_words()}",
        f"On a node, check that {target.shared}, {target.checkout} and {target.python} exist under these paths and "
        "this user may use them; and the keys container and modules.",
    )
