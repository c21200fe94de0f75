"""The code is replaced by another version's while a run is on: what trains goes on under the next runner, what has not
begun waits for a worker of the new version, what can't go on ends with a sentence. In a copy of the engine.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine import __version__
from engine.errors import RunnerError
from engine.experiments.hogwild.config import EXPERIMENT
from engine.home import ROOT, Home
from engine.runner.placement import LocalLauncher
from engine.runner.run_supervisor import Endings
from engine.runner.runner import Runner
from engine.runtime.worker import environment as code_version
from engine.store import Launch, Reader, Store
from engine.store.records import Demand, Run
from engine.system.processes import is_alive, me
from engine.system.runner_process import has_died, runner_process
from tests.runner.test_inheritance import of, worker
from tests.runner.test_runner import paper, runner
from tests.waiting import PATIENCE_S, wait_until

__all__ = ["runner", "worker"]
OLDER, NEWER = "0.1.7", "0.3.1"
Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return the folder of a copy of the engine, of the older version."""
    shutil.copytree(ROOT / "engine", tmp_path / "tree" / "engine", ignore=shutil.ignore_patterns("__pycache__"))
    call_it(tmp_path / "tree", OLDER)
    return tmp_path / "tree"


@pytest.fixture
def start(tree: Path, home: Home) -> Iterator[Start]:
    """Start a module of the copy; it is killed with the test."""
    started: list[subprocess.Popen[bytes]] = []

    def run(module: str, *more: str) -> "subprocess.Popen[bytes]":
        pipe = subprocess.PIPE
        environment = os.environ | {"PARALLAB_HOME": str(home.path), "PYTHONPATH": str(tree)}
        started.append(
            subprocess.Popen(
                [sys.executable, "-m", module, *more], cwd=tree, env=environment, stdin=pipe, stdout=pipe, stderr=pipe
            )
        )
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.communicate()


def call_it(tree: Path, version: str) -> None:
    (tree / "engine" / "__init__.py").write_text(f'__version__ = "{version}"\n')


def queued(store: Store) -> int:
    """Queue a run that trains until it is stopped."""
    config = EXPERIMENT.configure("sparse", {"trainers": 1, "epochs": 1000, "sparse_samples": 5000, "device": "cpu"})
    return store.runs.add(Launch("hogwild", config.model_dump(), "ada", demand=Demand(1, 0, 1, 1)))


def words_of(process: "subprocess.Popen[bytes]") -> str:
    assert process.stderr
    return process.stderr.read().decode()


def run_of(home: Home, run_id: int) -> Run:
    with Reader.open(home) as reader:
        return reader.runs.one(run_id)


def details(home: Home, run_id: int, kind: str) -> list[str]:
    with Reader.open(home) as reader:
        return [event.detail for event in reader.details.events(run_id) if event.kind == kind]


@pytest.mark.ranks
def test_a_replaced_runner_ends_and_the_next_one_lets_a_run_that_trains_go_on(
    home: Home, store: Store, tree: Path, start: Start
) -> None:
    first = start("engine", "serve")
    run_id = queued(store)
    wait_until(lambda: run_of(home, run_id).status == "running", "the run trains")
    begun = run_of(home, run_id).worker
    assert code_version.begun_by(run_of(home, run_id)) == OLDER
    (tree / "engine" / "experiments" / "hogwild" / "method.py").unlink()
    (tree / "engine" / "runtime" / "worker" / "ranks.py").unlink()
    call_it(tree, NEWER)
    assert (first.wait(PATIENCE_S), has_died(home)) == (4, True), "whoever looks after it starts the next one"
    assert f"The code of this runner (version {OLDER}) was replaced by version {NEWER}, so it stops" in words_of(first)
    start("engine", "serve")
    wait_until(lambda: runner_process(home) and details(home, run_id, "taken over"), "the next runner has it")
    assert details(home, run_id, "taken over") == [
        (
            f"Its worker has version {OLDER}, the runner has version {NEWER}. It continues with the code that "
            "it has loaded."
        )
    ]
    reached = run_of(home, run_id).progress_done
    wait_until(lambda: run_of(home, run_id).progress_done > reached, "it trains on")
    store.runs.cancel(run_id, by="ada")
    wait_until(lambda: run_of(home, run_id).status == "cancelled", "the next runner ends it")
    assert begun
    wait_until(lambda: not is_alive(begun), "its worker is gone")


@pytest.mark.ranks
def test_a_spare_worker_whose_code_was_replaced_gives_its_run_back(
    home: Home, store: Store, tree: Path, start: Start
) -> None:
    spare = start("engine.worker", "--home", str(home.path))
    assert spare.stdin
    assert spare.stdout
    assert spare.stdout.readline() == b"ready\n"
    run_id = queued(store)
    store.claims.claim(run_id, of(spare), ())
    call_it(tree, NEWER)
    spare.stdin.write(f"{run_id}\n".encode())
    spare.stdin.close()
    spare.stdin = None
    assert spare.wait(PATIENCE_S) == 0
    back = run_of(home, run_id)
    assert (back.status, back.worker, back.begun_at) == ("queued", None, None)
    assert details(home, run_id, "queued")[-1] == (
        f"The worker has version {OLDER} and the code on disk has version {NEWER}, so it can't start the run, "
        f"which waits for a worker of version {NEWER}."
    )


@pytest.mark.processes
def test_a_run_that_does_not_train_yet_is_ended_by_a_runner_of_another_version(
    home: Home, store: Store, worker: "subprocess.Popen[bytes]"
) -> None:
    run_id = queued(store)
    store.claims.claim(run_id, of(worker), ())
    store.worker.begin(run_id, of(worker), {"parallab": OLDER})
    endings = Endings(store, LocalLauncher(home))
    wait_until(lambda: not endings.holders(), "the run holds nothing any more")
    assert worker.wait(PATIENCE_S) == -9
    ended = run_of(home, run_id)
    assert (ended.status, ended.cause) == (
        "lost",
        (
            f"Its worker has version {OLDER}, the runner has version {__version__}. It was still starting, and "
            "code that it had not loaded yet was replaced. Retry it."
        ),
    )


@pytest.mark.parametrize("version", [OLDER, __version__, None])
def test_a_run_that_is_lost_says_where_its_worker_was_of_another_version(
    runner: Runner, store: Store, version: str | None
) -> None:
    run_id = queued(store)
    runner.step()
    gone = paper(runner).submitted[run_id]
    store.worker.begin(run_id, gone, {"parallab": version} if version else {})
    store.worker.mark_running(run_id, 0.1)
    paper(runner).ended[gone.pid] = "is gone"
    runner.step()
    lost = run_of(runner.home, run_id)
    assert (lost.status, f"Its worker has version {OLDER}" in lost.cause) == ("lost", version == OLDER)


def test_a_worker_that_fails_once_its_code_was_replaced_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    assert code_version.told_of_replacement("It failed.") == "It failed."
    monkeypatch.setattr(code_version, "version_on_disk", lambda: NEWER)
    told = code_version.told_of_replacement("The worker raised ModuleNotFoundError.")
    assert told == (
        f"The worker raised ModuleNotFoundError. Its code (version {__version__}) was replaced by version {NEWER} "
        "during the run, which may be the reason: retry or resume it."
    )


def test_a_runner_whose_code_was_replaced_ends_unless_it_is_to_stop_anyway(
    runner: Runner, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.runner.runner.is_replaced", lambda: True)
    store.runner.register(me(), cores=1, gpus=0)
    with pytest.raises(RunnerError, match="Start a new runner"):
        runner.step()
    store.runner.ask_to_stop()
    runner.beaten_at = 0.0
    assert runner.step() is False


def test_what_can_not_be_read_counts_as_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert code_version.version_on_disk() == __version__
    monkeypatch.setattr(code_version, "ROOT", tmp_path)
    assert code_version.version_on_disk() == __version__
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "__init__.py").write_text("")
    assert not code_version.is_replaced()
