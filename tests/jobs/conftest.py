"""A lab with a cluster whose Slurm is a stand-in, and a worker that only writes records."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from engine.cluster import slurm, supervisor
from engine.cluster.supervisor import ClusterJobs
from engine.cluster.targets import Cluster
from engine.home import Home
from engine.launch import launch
from engine.launch_options import LaunchOptions
from engine.recorder import Point
from engine.registry import experiment
from engine.runtime.worker.job_folder import JobFolder
from engine.runtime.worker.records import RecordFile
from engine.store import Launch, Store
from engine.store.queue.cluster_jobs import ClusterJob, JobState
from engine.store.records import RankBatch, RankRow, Run


@dataclass
class StandInSlurm:
    """What the runner asks of Slurm, kept in lists."""

    submitted: dict[str, str] = field(default_factory=dict)
    """Job ids by name."""
    listed: dict[str, JobState] = field(default_factory=dict)
    ended: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    failure: Exception | None = None
    loses_answer: bool = False

    def submit(self, cluster: Cluster, run: Run, job: ClusterJob, nodes: int) -> str:
        if self.failure:
            raise self.failure
        name = slurm.name_of(job)
        assert name not in self.submitted, "submitted twice"
        self.submitted[name] = str(100 + len(self.submitted))
        self.listed[name] = JobState(self.submitted[name], "PENDING", "Resources")
        if self.loses_answer:
            self.loses_answer = False
            raise slurm.SlurmUnavailable("Socket timed out on send/recv operation")
        return self.submitted[name]

    def states(self) -> dict[str, JobState]:
        if self.failure:
            raise self.failure
        return dict(self.listed)

    def end(self, job: ClusterJob) -> None:
        self.ended.append(slurm.name_of(job))

    def ask_to_stop(self, job: ClusterJob) -> None:
        self.asked.append(slurm.name_of(job))

    def set(self, state: str, nodes: str = "n1") -> None:
        """Give all jobs this state."""
        self.listed = {name: JobState(one.job_id, state, "", nodes) for name, one in self.listed.items()}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator["Clock"]:
    """Let tests pass the time of the supervisor."""
    made = Clock()
    monkeypatch.setattr(supervisor.time, "monotonic", lambda: made.at)
    monkeypatch.setattr(supervisor, "seconds_since", lambda at: made.at - made.stamps.setdefault(at, made.at))
    return made


@dataclass
class Clock:
    """Seconds of the supervisor; a stored time counts from when it was first looked at."""

    at: float = 1000.0
    stamps: dict[str, float] = field(default_factory=dict)


@dataclass
class JobLab:
    """A home with the cluster `lab`, and its supervisor."""

    home: Home
    store: Store
    slurm: StandInSlurm
    clock: Clock
    jobs: ClusterJobs = field(init=False)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Go on with another runner."""
        self.jobs = ClusterJobs(self.home, self.store)

    def launch(self, owner: str = "ada", **terms: object) -> int:
        config = experiment("reference").configure("quick")
        options = LaunchOptions(target="lab", **terms)  # type: ignore[arg-type]
        return launch(self.home, Launch("reference", config.model_dump(mode="json"), owner, terms=options))

    def step(self, seconds: float = 0.0) -> None:
        """Let time pass in looks half a second apart, and look once more."""
        for _ in range(int(seconds * 2)):
            self.clock.at += 0.5
            self.jobs.step()
        self.jobs.step()

    def run(self, run_id: int) -> Run:
        return self.store.read.runs.one(run_id)

    def job(self, run_id: int) -> ClusterJob:
        found = self.store.read.cluster_jobs.of(run_id)
        assert found
        return found

    def records(self, run_id: int) -> RecordFile:
        """Return the file of a worker that has begun the run."""
        file = RecordFile(JobFolder(Path(self.job(run_id).folder)))
        file.begin({"host": "n1", "parallab": "0"}, [0, 1], [], 4711)
        file.ranks([RankRow(0, "trainer1", 4712, "cpu", "running", None, None, None)])
        file.running(1.5)
        return file

    def values(self, run_id: int) -> list[float]:
        found = self.store.read.curves.series(run_id, ["train/loss"])
        return [value for series in found for value in series.values]


def losses(file: RecordFile, first: int, last: int) -> None:
    """Write the losses of some steps as a rank's batch."""
    points = [Point("train/loss", step, float(step), step / 10, None) for step in range(first, last)]
    file.write([RankBatch(0, points)], [], (last, 100, "samples"), [], [])


@pytest.fixture
def lab(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock) -> Iterator[JobLab]:
    """Give a lab with a cluster of 2 nodes with 4 cores each."""
    write_clusters(home, f'[lab]\nshared = "{tmp_path / "shared"}"\ncores = 4\nnodes = 2\nmax_jobs = 3\n')
    (tmp_path / "shared").mkdir()
    made = StandInSlurm()
    for name in ("submit", "states", "end", "ask_to_stop"):
        monkeypatch.setattr(slurm, name, getattr(made, name))
    monkeypatch.setattr(slurm, "states_in_accounting", lambda job_ids: {})
    with Store.open(home) as store:
        yield JobLab(home, store, made, clock)


def write_clusters(home: Home, text: str) -> None:
    """Write the home's clusters.toml."""
    home.clusters.write_text(text)
    home.clusters.chmod(0o600)
