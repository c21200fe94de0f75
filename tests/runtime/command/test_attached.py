"""A program that was started elsewhere is followed as a live run."""

import subprocess
import sys
from pathlib import Path

import pytest

from engine.errors import ConfigError
from engine.home import ROOT, Home
from engine.runtime.command.attached import attach
from engine.store import Reader, Store
from tests.waiting import wait_until

pytestmark = pytest.mark.processes

PROGRAM = """
import os, platform, sys, time
sys.path.insert(0, sys.argv[2])
from tests.transfer.readers.events import event, record, scalar
at = time.time()
with open(f"{sys.argv[1]}/events.out.tfevents.{int(at)}.{platform.node()}.{os.getpid()}.0", "wb", buffering=0) as file:
    for step in range(3):
        file.write(record(event(at + step, step, scalar("loss", 1 / (step + 1)))))
    sys.stdin.readline()
    file.write(record(event(at + 3, 3, scalar("loss", 0.25))))
"""


def values(home: Home, run_id: int) -> list[float]:
    with Reader.open(home) as reader:
        return [round(value, 3) for series in reader.curves.series(run_id, ["loss"]) for value in series.values]


def test_a_running_programs_event_files_are_a_live_run_that_ends_with_it(home: Home, tmp_path: Path) -> None:
    Store.open(home).close()
    folder = tmp_path / "exp 1"
    folder.mkdir()
    program = subprocess.Popen([sys.executable, "-c", PROGRAM, folder, ROOT], stdin=subprocess.PIPE)
    try:
        run_id = attach(home, folder, owner="ada")
        wait_until(lambda: values(home, run_id) == [1.0, 0.5, 0.333])
        with Reader.open(home) as reader:
            run = reader.runs.one(run_id)
        assert (run.experiment, run.owner, run.status, dict(run.config)) == (
            "exp 1",
            "ada",
            "running",
            {"folder": str(folder)},
        )
    finally:
        program.communicate(b"\n")

    def has_ended() -> bool:
        with Reader.open(home) as reader:
            return reader.runs.one(run_id).status == "finished"

    wait_until(has_ended)
    assert values(home, run_id) == [1.0, 0.5, 0.333, 0.25]


def test_a_folder_that_is_not_there_is_not_followed(home: Home, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is no folder"):
        attach(home, tmp_path / "nothing")
