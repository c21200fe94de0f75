"""The worker of a job: executes one run on a node of a cluster, without the store.

Everything it reports goes to the job's file of records.
"""

import logging
import os
import signal
import sys
import time
from functools import partial
from pathlib import Path

from engine import __version__
from engine.home import Home
from engine.jobs.further_nodes import further_nodes
from engine.jobs.job_folder import JobFolder, JobSpec
from engine.jobs.record_file import RecordFile
from engine.runtime.usage.disturbance import Disturbance
from engine.runtime.worker.environment import environment
from engine.runtime.worker.execution import Execution
from engine.runtime.worker.retry import retry_while_busy
from engine.runtime.worker.stop_request import StopSwitch
from engine.runtime.worker.worker import close_up_logs, warm_up, write_own_log
from engine.store.records import Status
from engine.system.checkpoint_state import RESUMED
from engine.system.machine import machine

log = logging.getLogger(__name__)

LOOK_S = 1.0
"""Interval of looks for a request to stop in the job's folder."""
LOST = "The process that started the worker on its node (slurmstepd) is gone, and with it the allocation."


class JobSwitch(StopSwitch):
    """A stop request: SIGTERM, a file of the job's folder, or the end of the process that Slurm watches the worker by.

    Without that process the worker would continue outside of any allocation.
    """

    def __init__(self, folder: JobFolder) -> None:
        super().__init__()
        self._folder = folder
        self._parent = os.getppid()
        self._looked_at = 0.0
        self.lost = ""
        """Why the job has lost its allocation; empty if it has not."""

    def is_requested(self) -> bool:
        """Return whether to stop."""
        now = time.monotonic()
        if now - self._looked_at >= LOOK_S:
            self._looked_at = now
            if not self.requested and os.getppid() != self._parent:
                self.lost = LOST
            self.requested = self.requested or bool(self.lost) or self._folder.is_to_stop()
        return super().is_requested()


def execute_job(path: str) -> None:
    """Execute the run whose job folder this is, and record how it ended."""
    began = time.monotonic()
    folder = JobFolder(Path(path))
    switch = JobSwitch(folder)
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)  # submitit's signal: a run is resumed by a job of its own
    spec = folder.spec()
    os.environ["PARALLAB_HOME"] = path
    records = RecordFile(folder)
    write_own_log(folder.run / "logs" / "worker.log")
    cores = machine().core_ids
    gpus = tuple(filter(None, os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")))
    numbers = [int(one) for one in gpus if one.isdecimal()]
    records.begin(surroundings(spec), cores, numbers, os.getpid())
    records.log_file("worker", "logs/worker.log")
    warm_up()
    execution = Execution(
        spec.experiment,
        spec.config,
        folder.run,
        Home(folder.path),
        records,
        switch,
        began,
        records.note,
        Disturbance(max(1, len(cores)), cores),
        gpus,
        spec.data_folder or None,
        spec.host_network_refused,
        spec.end_when_hung,
        lambda: (folder.run / RESUMED if spec.resumes else None, spec.time_before_s),
        partial(further_nodes, folder, spec.nodes - 1, spec.interface) if spec.nodes > 1 else None,
        spec.run_uid,
    )
    stopped = partial(_stopped, switch)
    status, cause, error = execution.outcome(stopped)
    if status == "failed" and switch.requested:
        status, cause, error = stopped()
    close_up_logs(folder.run / "logs")
    assert status in ("finished", "failed", "cancelled", "lost"), status
    final = status
    retry_while_busy(lambda: records.end(final, cause, error, execution.execution_time_s))
    sys.stdout.flush()
    os._exit(0)  # the run's end is recorded: submitit's result and the exit handlers of libraries add nothing


def surroundings(spec: JobSpec) -> dict[str, object]:
    """Return the environment of the run, with what Slurm says of the job."""
    told = {name: os.environ.get(f"SLURM_{name.upper()}", "") for name in ("job_id", "job_nodelist", "job_partition")}
    if spec.version != __version__:
        log.warning("the runner has version %s, this node has version %s", spec.version, __version__)
    return environment() | {"cluster": spec.cluster, "slurm": told}


def _stopped(switch: JobSwitch) -> tuple[Status, str, str]:
    if switch.lost:
        return "lost", switch.lost, ""
    return "cancelled", "The job was cancelled or reached its time limit on the cluster.", ""
