"""The command line as a person meets it: a process with an exit code and two streams; and runs to ask about."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import pytest
from click.testing import CliRunner

from engine.cli import main
from engine.home import ROOT, Home
from engine.recorder import Point, Span
from engine.store import Demand, Launch, MachineSample, RankBatch, RankRow, Store
from engine.system.processes import me

UMASK = 0o022
"""The usual one, under which others may read what a process makes."""
UNSET = ("PARALLAB_OWNER", "COLUMNS")


class Parallab(Protocol):
    def __call__(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run one command to its end."""


@pytest.fixture
def parallab(home: Home) -> Parallab:
    """Run a command on the test's home, inside this process: the same as one of its own but for the start of Python."""

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        unset = dict.fromkeys(UNSET)
        told = CliRunner().invoke(main, words, prog_name="python -m engine", env=unset | {"PARALLAB_OWNER": "ada"})
        if told.exception and not isinstance(told.exception, SystemExit):
            raise told.exception
        return subprocess.CompletedProcess(words, told.exit_code, told.stdout, told.stderr)

    return run


@pytest.fixture
def parallab_process(home: Home) -> Parallab:
    """Run a command on the test's home in a process of its own: where it starts a runner, or is about the process."""

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "engine", *words],
            cwd=ROOT,
            env=environment(home),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            umask=UMASK,
        )

    return run


@pytest.fixture
def begun(home: Home) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start a command and leave it running; what is left at the end of the test is killed."""
    started: list[subprocess.Popen[str]] = []

    def begin(*words: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "engine", *words],
            cwd=ROOT,
            env=environment(home),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            umask=UMASK,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def environment(home: Home) -> dict[str, str]:
    names = {name: value for name, value in os.environ.items() if name not in UNSET}
    return names | {"PARALLAB_HOME": str(home.path), "PARALLAB_OWNER": "ada"}


@pytest.fixture
def queued(store: Store) -> Callable[..., int]:
    """Queue a run that no runner takes, since none is there."""

    def add(name: str = "", *, experiment: str = "hogwild", owner: str = "ada") -> int:
        return store.runs.add(
            Launch(experiment, {"seed": 3, "trainers": 2}, owner, "quick", name, demand=Demand(2, 0, 2, 1))
        )

    return add


@pytest.fixture
def live(store: Store, queued: Callable[..., int], home: Home) -> int:
    """Give a run that this test's own process carries out: two trainers, some points, a NaN and an infinity among them,
    a log.
    """
    run_id = queued("first light")
    store.claims.claim(run_id, me(), [])
    store.worker.begin(run_id, me(), {"git_commit": "abc123", "host": "lab"})
    store.worker.add_ranks(
        run_id,
        [RankRow(rank, f"trainer{rank + 1}", 100 + rank, "cpu", "running", None, None, None) for rank in range(2)],
    )
    store.worker.mark_running(run_id, 1.25)
    losses = [
        Point("train/loss", step, value, step / 10, step / 4)
        for step, value in enumerate((2.5, float("nan"), float("inf"), 0.5), 1)
    ]
    batches = [
        RankBatch(
            0,
            losses,
            phases={"compute": 1.5, "wait": 0.25},
            spans=[Span("forward", 0, 1, 10, 20)],
            histograms={("staleness", 2): 7},
            last_step=4,
        ),
        RankBatch(1, losses[:1], phases={"compute": 1.0}, last_step=1),
    ]
    accuracy = [Point("test/accuracy", 4, 97.5, 0.4, 1.0), Point("test/accuracy", 8, 96.0, 0.8, 2.0)]
    store.worker.write(
        run_id,
        batches,
        run_points=accuracy,
        progress=(50, 200, "samples"),
        samples=[MachineSample("2026-01-01T00:00:00.000Z", "host", "cpu_percent", 83.0)],
    )
    write_log(home, run_id, "worker", "the worker speaks\n")
    store.worker.add_log(run_id, "worker", "logs/worker.log")
    return run_id


@pytest.fixture
def ended(store: Store, live: int) -> int:
    """Give the same run, finished."""
    store.claims.end(live, "finished", "All 2 ranks finished.", execution_time_s=4.5, who="worker")
    return live


def write_log(home: Home, run_id: int, source: str, text: str) -> Path:
    path = home.run_folder(run_id) / "logs" / f"{source}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(text)
    return path
