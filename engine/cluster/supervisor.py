"""The runner's side of runs on clusters: submit due jobs, take their records and files, end their runs. Torch-free.

All state is in the store and with Slurm, so that the next runner continues. A job is over when Slurm says so and its
file of records has stopped growing; one that Slurm no longer lists is lost only after minutes.
"""

import logging
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from engine.access.quotas import NONE, Limits, limits
from engine.cluster.job_results import StoredRun, apply, mirror
from engine.cluster.launcher import JobRefused, SlurmLauncher
from engine.cluster.slurm import ACTIVE, SlurmUnavailable, name_of
from engine.cluster.targets import Cluster, cluster
from engine.commands.kept_files import keep_left_files
from engine.errors import ConfigError
from engine.home import Home
from engine.queue.backfill import quota_limits
from engine.runtime.command.rest import store_rest
from engine.runtime.worker.job_folder import JobFolder
from engine.runtime.worker.records import Tail, read_records, tail_of
from engine.runtime.worker.sink import stop_reason
from engine.store import Store
from engine.store.connection import GAP_S
from engine.store.queue.cluster_jobs import ClusterJob, JobState
from engine.store.records import ENDED, Run
from engine.store.store import StoreThread, Work
from engine.store.timestamps import seconds_since
from engine.system.runner_process import lose

# ---- Troubles that last: each is logged once until it changes ------------------------------------------------------

log = logging.getLogger(__name__)


class Complaints:
    """What was last said about each thing."""

    def __init__(self) -> None:
        self._said: dict[str, str] = {}

    def about(self, thing: str, sentence: str) -> None:
        """Log a sentence about a thing, unless it was the last one."""
        if self._said.get(thing) != sentence:
            log.warning("%s", sentence)
        self._said[thing] = sentence

    def over(self, thing: str) -> None:
        """Note that a thing is well again."""
        self._said.pop(thing, None)


# ---- Cluster supervisor --------------------------------------------------------------------------------------------

LOOK_S = 0.5
"""Interval of looks at jobs and their files."""
POLL_S = 5.0
"""Interval of squeue."""
NEW_POLL_S = 1.0
"""Interval while a job that was submitted in the last seconds has not been seen running."""
NEW_S = 20.0
MIRROR_S = 2.0
"""Interval of copying a running job's files."""
CHUNK = 256 << 10
"""Bytes of records that one transaction stores: about 5,000 points, 70 ms."""
STOP_DEADLINE_S = 15.0
"""Time for a worker to end its run after SIGTERM; then the whole job is ended."""
END_DEADLINE_S = 30.0
"""Time for a job to leave Slurm after its run's last record; then the whole job is ended."""
QUIET_S = 6.0
"""Time without new records after which the end of a job without a last record is believed."""
LOST_S = 300.0
"""Time without new records and without a word of squeue after which a job is lost."""
GONE_S = 15.0
"""Time without a word of squeue after which an ended run's job is gone."""
MOST_SUBMITTED = 10
"""Jobs that are submitted between two looks at the others."""


def cluster_thread(home: Home) -> StoreThread:
    """Return the thread for clusters: a Slurm or shared folder that does not answer delays no run of this machine."""

    def begin(store: Store) -> Work:
        jobs = ClusterJobs(home, store)

        def step() -> float:
            jobs.step()
            return LOOK_S

        return step

    return StoreThread(home, "runs on clusters", begin)


@dataclass
class JobWatch:
    """What is known of a job beside the store; not inherited by the next runner."""

    sink: StoredRun
    mirrored_at: float = float("-inf")
    state: JobState | None = None
    """What the last answer of squeue said; None if it did not list the job."""
    absent_since: float | None = None
    """When answers of squeue began to leave the job out."""
    ended_at: float | None = None
    """When the run was first seen to have ended."""
    traces: int = 0
    """Number of requests for traces that the worker was told of."""
    submit_again_at: float = 0.0
    end_again_at: float = 0.0
    last: bool = False
    """Whether all of its file of records, even damaged lines at its end, is in the store."""


@dataclass
class ClusterJobs:
    """Looks after the jobs of one home's runs; `step` is called again and again, in one thread."""

    home: Home
    store: Store
    polled_at: float = float("-inf")
    answered: bool = False
    """Whether squeue has answered since this runner began."""
    _seen: dict[str, JobWatch] = field(default_factory=dict)
    launcher: SlurmLauncher = field(init=False)
    complaints: Complaints = field(default_factory=Complaints)

    def __post_init__(self) -> None:
        self.launcher = SlurmLauncher(self.home, self.store)

    def step(self) -> None:
        """Do all due work once."""
        jobs = self.store.read.cluster_jobs.all()
        if jobs:
            self._poll_if_due(jobs)
        for job in jobs:
            try:
                self._look_after(job)
            except OSError as error:  # the shared folder does not answer: the next step tries again
                self.complaints.about(job.cluster, f"The folder of job {job.job_id or name_of(job)}: {error}")
            except ConfigError as error:  # a job that is still to be submitted waits for its cluster
                self.complaints.about(job.cluster, str(error))
        self._submit_due()

    def _poll_if_due(self, jobs: list[ClusterJob]) -> None:
        young = any(job.state in ("", "PENDING") and seconds_since(job.submitted_at) < NEW_S for job in jobs)
        if time.monotonic() - self.polled_at < (NEW_POLL_S if young else POLL_S):
            return
        self.polled_at = time.monotonic()
        try:
            found = self.launcher.poll(jobs)
        except (SlurmUnavailable, ValueError) as error:
            self.complaints.about("squeue", str(error))
            return
        self.complaints.over("squeue")
        self.answered = True
        listed = []
        for job in jobs:
            seen = self._of(job)
            seen.state = found.get(job.token)
            if seen.state is None:
                seen.absent_since = seen.absent_since or time.monotonic()
                continue
            seen.absent_since = None
            if not job.job_id:
                self.store.cluster_jobs.submitted(job, seen.state.job_id)
            listed.append((job, seen.state))
        self.store.cluster_jobs.seen(listed)

    def _of(self, job: ClusterJob) -> JobWatch:
        return self._seen.setdefault(job.token, JobWatch(StoredRun(self.store, job)))

    def _look_after(self, job: ClusterJob) -> None:
        seen, folder = self._of(job), JobFolder(Path(job.folder))
        if not job.job_id and seen.state is None and not folder.records.exists():
            self._submit_again(job, seen)
            return
        self._take_all(job, folder, seen)
        run = self.store.read.runs.one(job.run_id)
        self._tell_of_traces(run, folder, seen)
        if time.monotonic() - seen.mirrored_at >= MIRROR_S and folder.run.exists():
            mirror(folder.run, self.home.run_folder(run.id))
            seen.mirrored_at = time.monotonic()
        if run.status in ENDED:
            self._see_off(job, run, folder, seen)
        elif run.status == "queued":
            self._while_queued(job, run, seen)
        else:
            self._while_alive(job, run, folder, seen)

    def _take_all(self, job: ClusterJob, folder: JobFolder, seen: JobWatch) -> ClusterJob:
        """Store all new records; return the job with its new position."""
        while self._take(job, folder, seen):
            job = self.store.read.cluster_jobs.of(job.run_id) or job
            time.sleep(GAP_S)  # others write too
        return self.store.read.cluster_jobs.of(job.run_id) or job

    def _take(self, job: ClusterJob, folder: JobFolder, seen: JobWatch, *, last: bool = False) -> bool:
        """Store the next records; return whether there may be more."""
        content = read_records(folder.records, job.position, CHUNK)
        tail = tail_of(content, job.position, last=last)
        if tail.position == job.position:
            return False
        self.store.cluster_jobs.advance(job, tail.position, *self._writes(job, tail, seen))
        return len(content) >= CHUNK

    def _writes(self, job: ClusterJob, tail: Tail, seen: JobWatch) -> tuple[int, list[partial[None]]]:
        """Return the number of the last record, and what stores the new ones."""
        writes: list[partial[None]] = []
        number, missing = job.sequence, 0
        for line in tail.lines:
            if line.sequence <= number:
                continue
            missing += line.sequence - number - 1
            number = line.sequence
            writes.append(partial(apply, line, seen.sink))
        if missing:
            words = f"{missing:,} records of the job are missing in its file; the shared file system has lost them."
            writes.append(partial(self.store.runs.add_event, job.run_id, "records missing", "runner", words))
        return number, writes

    def _tell_of_traces(self, run: Run, folder: JobFolder, seen: JobWatch) -> None:
        if run.status == "running" and len(found := self.store.read.traces.requests(run.id, 0)) > seen.traces:
            folder.request_traces([seconds for _, seconds in found])
            seen.traces = len(found)

    def _while_queued(self, job: ClusterJob, run: Run, seen: JobWatch) -> None:
        """A job that waits: withdraw it if its run was put on hold; see whether it failed to begin."""
        if self.store.read.cluster_jobs.is_held(run.id):
            if self._is_gone(job, seen):
                self._discard(job)
            else:
                self._end_job(job, seen)
        elif self._is_over(job, seen):
            cure = _cure(self.launcher.failure(job))
            self.store.claims.refuse(run.id, f"{_how(job, seen)} before the run began. {cure}")
        elif self._is_lost(job, seen):
            self.store.claims.refuse(run.id, f"Slurm no longer knows job {job.job_id}, and its run has not begun.")

    def _while_alive(self, job: ClusterJob, run: Run, folder: JobFolder, seen: JobWatch) -> None:
        if seen.sink.lost or self._is_over(job, seen) or self._is_lost(job, seen):
            self._take_last(job, folder, seen)
            store_rest(self.store, self.store.read.runs.one(run.id), folder.run)
            self._settle(job, self.store.read.runs.one(run.id), seen)
        elif seen.state is not None and seen.state.state not in ACTIVE:
            folder.ask_to_stop()  # records still come: the worker has outlived its allocation
        elif run.status == "stopping":
            self._stop(job, run, seen)
        elif _is_over_time(run):
            self.store.claims.stop_at_limit(run.id)

    def _take_last(self, job: ClusterJob, folder: JobFolder, seen: JobWatch) -> None:
        job = self._take_all(self.store.read.cluster_jobs.of(job.run_id) or job, folder, seen)
        self._take(job, folder, seen, last=True)
        if folder.run.exists():
            mirror(folder.run, self.home.run_folder(job.run_id))
            keep_left_files(self.store, job.run_id, self.home.run_folder(job.run_id))

    def _settle(self, job: ClusterJob, run: Run, seen: JobWatch) -> None:
        """End a run whose job is over without a last record."""
        if run.status in ENDED:
            return
        if run.stop_requested_by:
            self.store.claims.end(run.id, "cancelled", stop_reason(run))
        elif seen.state and seen.state.state == "CANCELLED":
            cause = f"Job {job.job_id} was cancelled on the cluster (scancel), not from Parallab."
            self.store.claims.end(run.id, "cancelled", cause)
        else:
            cause = seen.sink.lost or f"{_how(job, seen)} during the run."
            lose(self.store, run, f"{cause} Recorded data is kept.")

    def _stop(self, job: ClusterJob, run: Run, seen: JobWatch) -> None:
        """Ask the worker to end its run, and end the job at the deadline, or at once with force."""
        if run.stop_kind == "force" or (job.stop_sent_at and seconds_since(job.stop_sent_at) > STOP_DEADLINE_S):
            self._end_job(job, seen)
        elif not job.stop_sent_at and self.launcher.cancel(job):
            self.store.cluster_jobs.stop_sent(job)

    def _see_off(self, job: ClusterJob, run: Run, folder: JobFolder, seen: JobWatch) -> None:
        """After a run's end: see that its job has left Slurm, take the rest of its files, and forget it."""
        seen.ended_at = seen.ended_at or time.monotonic()
        if not self._is_gone(job, seen):
            ends_itself = run.begun_at is not None and run.stop_kind != "force" and not seen.sink.lost
            if not ends_itself or time.monotonic() - seen.ended_at > END_DEADLINE_S:
                self._end_job(job, seen)
            return
        if not seen.last:
            self._take_last(job, folder, seen)
            seen.last = True
        self._discard(job)

    def _discard(self, job: ClusterJob) -> None:
        """Remove a job's folder and forget it."""
        with suppress(FileNotFoundError):
            shutil.rmtree(job.folder)
        self._forget(job)

    def _forget(self, job: ClusterJob) -> None:
        self.store.cluster_jobs.remove(job)
        self._seen.pop(job.token, None)

    def _end_job(self, job: ClusterJob, seen: JobWatch) -> None:
        """End the job with all its processes; again every few seconds until Slurm no longer runs it."""
        if time.monotonic() < seen.end_again_at:
            return
        seen.end_again_at = time.monotonic() + POLL_S
        self.launcher.cancel(job, force=True)

    def _is_over(self, job: ClusterJob, seen: JobWatch) -> bool:
        """Return whether Slurm says that the job has ended and no record has come for a while."""
        return seen.state is not None and seen.state.state not in ACTIVE and _quiet_s(job) >= QUIET_S

    def _is_lost(self, job: ClusterJob, seen: JobWatch) -> bool:
        absent_s = time.monotonic() - seen.absent_since if seen.absent_since else 0.0
        return absent_s >= LOST_S and _quiet_s(job) >= LOST_S

    def _is_gone(self, job: ClusterJob, seen: JobWatch) -> bool:
        """Return whether nothing of the job runs any more."""
        if seen.state is not None:
            return seen.state.state not in ACTIVE
        return seen.absent_since is not None and time.monotonic() - seen.absent_since >= GONE_S

    def _submit_due(self) -> None:
        """Submit jobs of queued runs, within the clusters' and the people's limits."""
        submitted = 0
        if self.store.read.runner.is_stopping():
            return
        for name in self.store.read.cluster_jobs.targets():
            try:
                target = cluster(self.home, name)
            except ConfigError as error:
                self.complaints.about(name, str(error))
                continue
            while submitted < MOST_SUBMITTED and (run := self._next(target)):
                if job := self.launcher.reserve(target, run):
                    self._submit(target, run, job)
                submitted += 1

    def _next(self, target: Cluster) -> Run | None:
        here = [job for job in self.store.read.cluster_jobs.all() if job.cluster == target.name]
        if len(here) >= target.max_jobs:
            return None
        holders = [self.store.read.runs.one(job.run_id) for job in here]
        bounded = quota_limits(self.store.read.queue.owners(), holders, self._limits())
        return self.store.read.queue.next(bounded, target.name)

    def _limits(self) -> Limits:
        try:
            return limits(self.home)
        except ConfigError as error:
            self.complaints.about("limits", str(error))
            return NONE

    def _submit_again(self, job: ClusterJob, seen: JobWatch) -> None:
        """Submit a job whose submission a crash or Slurm's silence has interrupted, once squeue did not list it."""
        run = self.store.read.runs.one(job.run_id)
        if run.status != "queued" or self.store.read.cluster_jobs.is_held(run.id):
            if self._is_gone(job, seen):
                self._discard(job)
            else:
                self._end_job(job, seen)
        elif seen.absent_since is not None and time.monotonic() >= seen.submit_again_at:
            self._submit(cluster(self.home, job.cluster), run, job)

    def _submit(self, target: Cluster, run: Run, job: ClusterJob) -> None:
        """Submit a run's job; the run of a refused one fails."""
        seen = self._of(job)
        seen.absent_since, seen.submit_again_at = None, time.monotonic() + POLL_S
        try:
            self.launcher.submit(target, run, job)
        except SlurmUnavailable as error:
            self.complaints.about(target.name, str(error))
        except JobRefused as error:
            self.store.claims.refuse(run.id, str(error))
            with suppress(OSError):
                shutil.rmtree(job.folder)
            self._forget(job)


def _quiet_s(job: ClusterJob) -> float:
    return seconds_since(job.grown_at or job.submitted_at)


def _how(job: ClusterJob, seen: JobWatch) -> str:
    """Return how a job ended, as a sentence without its end."""
    state = seen.state.state if seen.state else ""
    words: Mapping[str, str] = {
        "TIMEOUT": "reached its time limit on the cluster",
        "NODE_FAIL": "lost a node",
        "PREEMPTED": "was preempted by another job",
        "OUT_OF_MEMORY": "used more memory than it asked for",
        "CANCELLED": "was cancelled on the cluster (scancel)",
        "FAILED": "failed",
        "COMPLETED": "ended without a last record",
        "DEADLINE": "reached its deadline",
        "BOOT_FAIL": "could not start its node",
        "": "has sent no record for minutes, and Slurm does not list it",
    }
    where = f" on {seen.state.nodes}" if seen.state and seen.state.nodes else ""
    return f"Job {job.job_id} of {job.cluster}{where} {words.get(state, f'ended as {state}')}"


def _cure(words: str) -> str:
    return f"Its output ends: {words}" if words else "It has no output. Check the cluster with the doctor command."


def _is_over_time(run: Run) -> bool:
    limit = run.terms.max_run_time_s
    return limit is not None and run.begun_at is not None and _age_s(run.begun_at) >= limit


def _age_s(at: str) -> float:
    return (datetime.now(UTC) - datetime.fromisoformat(at)).total_seconds()
