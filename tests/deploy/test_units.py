"""Console and runner as services: what their unit files say is carried out, and killed at random moments both come back
with nothing lost.
"""

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from app.web.port_check import trouble
from engine.home import ROOT, Home
from engine.launch import launch
from engine.registry import experiment
from engine.store import Launch, Reader
from engine.store.records import ENDED
from engine.system.runner_process import ensure_running, runner_process
from engine.upkeep.fsck import examine
from tests.browser.conftest import free_port
from tests.deploy.units import FOLDER, Service, read
from tests.faults.commit_log import committed, environment, lost, points
from tests.waiting import wait_until

UNITS = ("parallab-runner.service", "parallab-console.service")
SETTINGS: dict[str, Any] = {
    "dataset": "digits",
    "trainers": 2,
    "epochs": 12,
    "device": "cpu",
    "threads_per_rank": 1,
    "evaluate_every": 0,
}


@dataclass
class Lab:
    """One home with both services."""

    home: Home
    port: int
    runner: Service
    console: Service

    def serves(self) -> bool:
        """Say whether the console answers and a runner is alive."""
        return not trouble(self.port) and runner_process(self.home) is not None

    def statuses(self) -> list[str]:
        """Return how all runs stand."""
        with Reader.open(self.home, timeout_s=30) as reader:
            return [row.status for row in reader.runs.find(limit=1_000)]

    def failures(self) -> list[str]:
        """Return why each run that did not finish has not."""
        with Reader.open(self.home, timeout_s=30) as reader:
            runs = [reader.runs.one(row.id) for row in reader.runs.find(limit=1_000) if row.status != "finished"]
        return [f"run {run.id} is {run.status}: {run.cause} {run.error}" for run in runs]


@contextmanager
def services(home: Home, folder: Path) -> Iterator[Lab]:
    """Run both services of a home as their unit files say."""
    port = free_port()
    run = folder / ("run" + "n" * 80)  # too long a path for sockets: runs must start all the same
    run.mkdir()
    places = {
        "/opt/parallab/.venv/bin/python": sys.executable,
        "/opt/parallab": str(ROOT),
        "/var/lib/parallab": str(home.path),
        "/run/parallab": str(run),
    }
    told = {"PARALLAB_PORT": str(port)} | environment(folder / "commits.jsonl")
    runner, console = (Service(name, places, told, folder / f"{name}.log") for name in UNITS)
    with runner, console:
        yield Lab(home, port, runner, console)


@pytest.mark.processes
@pytest.mark.parametrize("kills", [2, pytest.param(30, marks=pytest.mark.long)])
def test_killed_at_random_moments_both_come_back_and_nothing_is_lost(home: Home, tmp_path: Path, kills: int) -> None:
    moments = random.Random(kills)
    with services(home, tmp_path) as lab:
        wait_until(lab.serves, "console and runner are there")
        runs = [
            launch(
                home,
                Launch("hogwild", experiment("hogwild").configure(None, SETTINGS).model_dump(mode="json"), "ada"),
                timeout_s=30,
            )
        ]
        for number in range(kills):
            victim = (lab.runner, lab.console)[number % 2]
            time.sleep(moments.uniform(0.2, 1.2))
            starts = victim.starts
            victim.kill()
            wait_until(lambda victim=victim, starts=starts: victim.starts > starts, "it is started again")
            wait_until(lab.serves, "console and runner are there again")
            if all(status in ENDED for status in lab.statuses()):
                runs.append(
                    launch(
                        home,
                        Launch(
                            "hogwild", experiment("hogwild").configure(None, SETTINGS).model_dump(mode="json"), "ada"
                        ),
                        timeout_s=30,
                    )
                )
        assert (lab.runner.starts, lab.console.starts) == (kills - kills // 2 + 1, kills // 2 + 1), (
            f"each was started once more for each kill, by its service alone; they said: {lab.runner.said()} "
            f"{lab.console.said()}"
        )
        wait_until(lambda: all(status in ENDED for status in lab.statuses()), "all runs have ended")
        assert lab.failures() == [], "runs outlive the runner and the console"
        wait_until(lambda: [each.sentence for each in examine(home)] == [], "fsck finds nothing")
        known = committed(tmp_path / "commits.jsonl")
        with Reader.open(home, timeout_s=30) as reader:
            assert [words for run_id, curves in known.items() for words in lost(reader, run_id, curves)] == []
            assert {reader.runs.one(run_id).starts for run_id in runs} == {1}
        assert sum(points(curves.values()) for curves in known.values()) > 0
        kept = lab.runner.process
    assert kept is not None
    assert (kept.returncode, runner_process(home)) == (0, None), "asked to end, the runner signs off"


def test_where_a_service_sees_to_the_runner_nothing_else_starts_one(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PARALLAB_RUNNER", "separate")
    assert not ensure_running(home)
    assert runner_process(home) is None


def test_runs_survive_what_the_runner_s_service_does() -> None:
    """What the supervisor above can't show, since systemd alone does it."""
    runner = {name: values[-1] for name, values in read(UNITS[0]).items()}
    assert runner["KillMode"] == "process", "else systemd ends the runs with the runner"
    assert runner["OOMPolicy"] == "continue", "else the end of one rank without memory ends all runs"
    assert runner["RuntimeDirectoryPreserve"] == "yes", "else a restart takes the sockets of live runs away"
    assert "PrivateTmp" not in runner and "PrivateDevices" not in runner and "PrivateIPC" not in runner
    assert int(runner["LimitNOFILE"]) >= 65_536
    console = {name: values[-1] for name, values in read(UNITS[1]).items()}
    for name in (
        "NoNewPrivileges",
        "ProtectSystem",
        "ProtectHome",
        "StateDirectory",
        "User",
        "UMask",
        "EnvironmentFile",
    ):
        assert runner[name] == console[name]


@pytest.mark.processes
@pytest.mark.needs_program("systemd-analyze")
def test_systemd_finds_no_fault_with_the_unit_files(tmp_path: Path) -> None:
    for name in UNITS:  # it looks for the program and the page that a unit names
        text = (
            (FOLDER / name)
            .read_text()
            .replace("/opt/parallab/.venv/bin/python", "/bin/true")
            .replace("file:/opt/parallab/docs/deployment.md", "man:true(1)")
        )
        (tmp_path / name).write_text(text)
    ended = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *(tmp_path / name for name in UNITS)], capture_output=True, text=True
    )
    assert (ended.returncode, ended.stdout + ended.stderr) == (0, "")
