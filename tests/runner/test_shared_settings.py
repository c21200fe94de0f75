"""Settings on which a runner and the person who launches disagree: named with both values and the cure, or kept with
the run.
"""

import os
import subprocess
from collections.abc import Callable, Iterator

import pytest

from engine.home import Home
from engine.runner.shared_settings import ignored_settings
from engine.store import Store
from engine.system.processes import identity
from tests.cli.conftest import Parallab, parallab

__all__ = ["parallab"]
pytestmark = pytest.mark.processes
Started = Callable[..., int]


@pytest.fixture
def runner(home: Home) -> Iterator[Started]:
    """Register a process with this environment as the runner of the home; return its pid."""
    started: list[subprocess.Popen[bytes]] = []

    def start(**environment: str) -> int:
        inherited = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
        started.append(subprocess.Popen(["sleep", "600"], env=inherited | environment))
        process = identity(started[-1].pid)
        assert process
        with Store.open(home) as store:
            store.runner.register(process, cores=1, gpus=0)
        return process.pid

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_a_setting_that_the_runner_has_otherwise_is_named_with_both_values(home: Home, runner: Started) -> None:
    pid = runner(PARALLAB_BACKUP_KEEP="7", PARALLAB_BACKUP_EVERY_H="24")
    here = {
        "CUDA_VISIBLE_DEVICES": "1",
        "PARALLAB_BACKUP_KEEP": "3",
        "PARALLAB_BACKUP_EVERY_H": "24",
        "OMP_NUM_THREADS": "8",
        "PARALLAB_DATA": "/data",
    }
    keeps = f"in the runner (pid {pid}), which keeps its settings from its start."
    assert ignored_settings(home, here) == [
        f"CUDA_VISIBLE_DEVICES is '1' here, but not set {keeps}",
        f"PARALLAB_BACKUP_KEEP is '3' here, but '7' {keeps}",
    ]


def test_a_setting_that_may_hold_a_password_is_named_without_its_value(home: Home, runner: Started) -> None:
    runner(https_proxy="http://ada:secret@proxy:1")
    told = ignored_settings(home, {"https_proxy": "http://ada:other@proxy:1", "ALL_PROXY": "http://ada:third@proxy:1"})
    assert [sentence.partition(" in the runner")[0] for sentence in told] == [
        "ALL_PROXY is set here, but not",
        "https_proxy has a different value here than",
    ]
    assert not any(word in sentence for sentence in told for word in ("secret", "other@", "third"))


def test_nothing_is_said_without_a_runner(home: Home) -> None:
    assert ignored_settings(home, {"CUDA_VISIBLE_DEVICES": "1"}) == []


def test_a_command_that_launches_says_what_the_runner_ignores(
    runner: Started, parallab: Parallab, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner(PARALLAB_RUNNER="separate")
    monkeypatch.setenv("PARALLAB_RUNNER", "separate")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    told = parallab("submit", "hogwild", "--preset", "quick")
    assert told.returncode == 0
    assert "CUDA_VISIBLE_DEVICES is '1' here, but not set in the runner" in told.stderr
    assert "restart the runner: python -m engine stop, then python -m engine serve" in told.stderr
