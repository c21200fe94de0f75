"""A lab whose runner has a real Slurm."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from engine.home import ROOT, Home
from engine.launch import launch
from engine.launch_options import LaunchOptions
from engine.metrics import LAST_EPISODES, LOSS_FALL
from engine.registry import experiment
from engine.store import Launch, Reader, Run
from tests.cluster.slurm import SlurmLab
from tests.waiting import PATIENCE_S, wait_until

OVER_TIME = {LOSS_FALL, LAST_EPISODES}


class ClusterLab:
    """A home with the cluster `lab`, and its runner, while its context is open."""

    def __init__(self, home: Home, slurm: SlurmLab, shared: Path, *lines: str) -> None:
        self.home = home
        self.slurm = slurm
        self.shared = shared
        self.runner: subprocess.Popen[bytes] | None = None
        shared.mkdir(exist_ok=True)
        table = (
            "[lab]",
            f'shared = "{shared}"',
            "cores = 2",
            f"nodes = {len(slurm.nodes)}",
            "trusted = true",
            *lines,
        )
        if data := os.environ.get("PARALLAB_DATA"):
            table = (*table, f'data = "{data}"')
        home.clusters.write_text("\n".join(table))
        home.clusters.chmod(0o600)

    def __enter__(self) -> Self:
        self.start_runner()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill_runner()

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment of the runner and of commands."""
        return os.environ | self.slurm.environment | {"PARALLAB_HOME": str(self.home.path)}

    def start_runner(self) -> None:
        with (self.home.path / "runner.log").open("ab") as log:
            command = [sys.executable, "-m", "engine", "serve"]
            self.runner = subprocess.Popen(command, cwd=ROOT, env=self.environment, stdout=log, stderr=log)

    def kill_runner(self, sent: signal.Signals = signal.SIGKILL) -> None:
        if self.runner:
            self.runner.send_signal(sent)
            self.runner.wait()

    def command(self, *words: str) -> str:
        """Return what a command prints."""
        done = subprocess.run(
            [sys.executable, "-m", "engine", *words],
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def launch(self, name: str, nodes: int = 1, *, on: str = "lab", retries: int = 0, **settings: object) -> int:
        """Queue a run with the quick settings and these."""
        config = experiment(name).configure("quick", {"threads_per_rank": 1, **settings})
        terms = LaunchOptions(target=on, nodes=nodes, max_retries=retries)
        return launch(self.home, Launch(name, config.model_dump(mode="json"), "ada", terms=terms), timeout_s=30)

    def run(self, run_id: int) -> Run:
        with Reader.open(self.home, timeout_s=30) as reader:
            return reader.runs.one(run_id)

    def wait_for(self, run_id: int, *statuses: str) -> Run:
        """Wait until a run has one of these statuses."""
        found: list[Run] = []

        def holds() -> bool:
            found[:] = [self.run(run_id)]
            return found[0].status in statuses

        wait_until(holds, f"run {run_id} is {' or '.join(statuses)}: {self.log()}")
        return found[0]

    def log(self) -> str:
        """Return the end of the runner's log."""
        return (self.home.path / "runner.log").read_text()[-2000:]

    def ended(self, run_id: int) -> Run:
        """Wait until a run has ended and its job is forgotten."""
        run = self.wait_for(run_id, "finished", "failed", "cancelled", "lost")
        wait_until(lambda: not self.has_job(run_id), f"the job of run {run_id} is forgotten: {self.log()}")
        return run

    def has_job(self, run_id: int) -> bool:
        with Reader.open(self.home, timeout_s=30) as reader:
            return reader.cluster_jobs.of(run_id) is not None

    def curves(self, run_id: int) -> dict[tuple[str, int | None], list[tuple[int, float]]]:
        """Return the points of what is learned, by metric and rank; without figures over all ranks in order of time,
        which no two runs have alike.
        """
        with Reader.open(self.home, timeout_s=30) as reader:
            names = [one.metric for one in reader.details.summaries(run_id)]
            learned = sorted({name for name in names if name.startswith(("train/", "test/", "charts/"))} - OVER_TIME)
            found = reader.curves.series(run_id, learned)
        return {(one.metric, one.rank): list(zip(one.steps, one.values, strict=True)) for one in found}

    def values(self, run_id: int, metric: str) -> list[float]:
        """Return the values of a metric of a run with one rank."""
        with Reader.open(self.home, timeout_s=30) as reader:
            found = reader.curves.series(run_id, [metric])
        return [*found[0].values] if found else []

    def events(self, run_id: int) -> list[str]:
        with Reader.open(self.home, timeout_s=30) as reader:
            return [f"{event.kind}: {event.detail}" for event in reader.details.events(run_id)]

    def processes(self) -> Iterator[psutil.Process]:
        """Yield the live processes of jobs on all nodes."""
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                words = [process.environ().get("PARALLAB_HOME", ""), *process.cmdline()]
                ours = any(word.startswith(str(self.shared)) for word in words)
                if ours and process.status() != psutil.STATUS_ZOMBIE:
                    yield process

    def pid_of(self, run_id: int, role: str) -> int:
        """Return the process of a rank."""
        with Reader.open(self.home, timeout_s=30) as reader:
            (found,) = [row.pid for row in reader.details.ranks(run_id) if row.role == role]
        assert found
        return found


def nothing_is_left(lab: ClusterLab) -> None:
    """Wait until no process, allocation or folder of a job is left."""
    wait_until(lambda: not list(lab.processes()), "no process of a job is left")
    wait_until(lambda: not {*lab.slurm.jobs().values()} & {"PENDING", "RUNNING", "COMPLETING"}, "no allocation is left")
    assert list((lab.shared / "parallab-jobs").iterdir()) == []


def worker_of(lab: ClusterLab) -> psutil.Process:
    """Return the worker of the only job."""
    return next(process for process in lab.processes() if "submitit.core._submit" in process.cmdline())
