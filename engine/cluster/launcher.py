"""Launching of runs as jobs on clusters: what `LocalLauncher` does with processes of this machine. Torch-free.

Instead of a worker, a job's name is reserved: it is stored before the job is submitted, so the next runner finds it
after any crash.
"""

import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from engine import __version__
from engine.catalogue import catalogue, set_catalogue
from engine.cluster import slurm
from engine.cluster.slurm import SlurmRefused, SlurmUnavailable
from engine.cluster.targets import Cluster, machine_for
from engine.errors import ConfigError, NoCheckpoint, RunnerError
from engine.home import Home
from engine.runtime.worker.job_folder import JobFolder, JobSpec, check_owner
from engine.store import Store
from engine.store.queue.cluster_jobs import ClusterJob, JobState
from engine.store.records import Run
from engine.system.checkpoint_state import go_on_from_parent
from engine.system.run_files import opened_within, vacate


class JobRefused(RunnerError):
    """A run can't become a job as it is, and trying again would not help."""


class SlurmLauncher:
    """Submits runs of one home to clusters, and follows and ends their jobs."""

    def __init__(self, home: Home, store: Store) -> None:
        self._home = home
        self._store = store

    def reserve(self, target: Cluster, run: Run) -> ClusterJob | None:
        """Store the name and folder of a run's job before it exists; None if the run is no longer queued."""
        token = secrets.token_hex(6)
        folder = target.jobs / f"run-{run.id}-{token}"
        if not self._store.cluster_jobs.plan(run.id, target.name, token, str(folder)):
            return None
        return self._store.read.cluster_jobs.of(run.id)

    def submit(self, target: Cluster, run: Run, job: ClusterJob) -> None:
        """Write the reserved job's folder and submit it; raises JobRefused, SlurmUnavailable."""
        folder = JobFolder(Path(job.folder))
        try:
            machine_for(self._home, run.terms)  # the cluster may have changed since the launch
            check_owner(target.jobs)
            if not folder.run.exists() and (found := vacate(self._home, run.id)):
                words = f"Files of another run of this number are in {found}."
                self._store.runs.add_event(run.id, "folder moved", "runner", words)
            folder.create(self._spec(target, run, folder))
            set_catalogue(Home(folder.path), catalogue(self._home))  # the nodes check the config by it
            self._store.cluster_jobs.submitted(job, slurm.submit(target, run, job, run.terms.nodes))
        except (SlurmRefused, NoCheckpoint, ConfigError) as error:
            raise JobRefused(str(error)) from error
        except OSError as error:
            why = f"{error.strerror or error}: {error.filename or job.folder}"
            raise JobRefused(f"The shared folder of cluster {target.name} can't be used: {why}.") from error

    def poll(self, jobs: Sequence[ClusterJob]) -> Mapping[str, JobState]:
        """Return the states of the jobs that Slurm or its accounting knows, by token; raises SlurmUnavailable."""
        listed = slurm.states()
        missing = [job.job_id for job in jobs if job.job_id and slurm.name_of(job) not in listed]
        past = slurm.states_in_accounting(missing)
        found = {job.token: listed.get(slurm.name_of(job)) or past.get(job.job_id) for job in jobs}
        return {token: state for token, state in found.items() if state}

    def cancel(self, job: ClusterJob, *, force: bool = False) -> bool:
        """Ask a job's worker to end its run, or with `force` end the job; return whether Slurm took the request."""
        with suppress(SlurmUnavailable):
            if force:
                slurm.end(job)
            else:
                slurm.ask_to_stop(job)
            return True
        return False

    def failure(self, job: ClusterJob) -> str:
        """Return the end of a job's output."""
        if not (found := sorted((Path(job.folder) / "slurm").glob("*_log.out"))):
            return ""
        with suppress(FileNotFoundError), opened_within(found[-1].parent, found[-1].name) as file:
            return file.read().decode(errors="replace")[-1500:].strip()
        return ""

    def _spec(self, target: Cluster, run: Run, folder: JobFolder) -> JobSpec:
        resumed = self._resumed(run, folder)
        return JobSpec(
            version=__version__,
            run_id=run.id,
            cluster=target.name,
            experiment=run.experiment,
            config=dict(run.config),
            command=run.command.plain() if run.command else None,
            nodes=run.terms.nodes,
            cores=run.demand.cores,
            end_when_hung=run.terms.end_when_hung,
            data_folder=str(target.data_folder),
            host_network_refused=self._store.read.quotas.why_no_listening("host"),
            run_uid=run.uid,
            resumes=resumed is not None,
            time_before_s=resumed or 0.0,
            interface=target.interface or "",
            home=str(self._home.path.resolve()),
        )

    def _resumed(self, run: Run, folder: JobFolder) -> float | None:
        """Give the job the checkpoint of the run that this one resumes; return the training time up to it."""
        if go_on_from_parent(self._store, run, folder.run) is None:
            return None
        return self._store.read.runs.one(run.id).time_before_s
