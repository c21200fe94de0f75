"""A program that was started elsewhere is followed as a live run."""

import subprocess
import sys
import time
from pathlib import Path
from platform import node

import pytest

from engine.errors import ConfigError
from engine.home import ROOT, Home
from engine.recorder import Point
from engine.runtime.command.attached import attach
from engine.runtime.command.rest import store_rest
from engine.script.command import read_command
from engine.store import Launch, Reader, Store
from engine.store.records import Demand
from engine.system.processes import me
from tests.transfer.readers import events
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


@pytest.mark.parametrize("is_attached", [False, True], ids=["command", "attached"])
def test_the_rest_of_a_run_whose_worker_was_killed_is_stored_once(
    home: Home, store: Store, tmp_path: Path, is_attached: bool
) -> None:
    command = None if is_attached else read_command(["python", "train.py"], str(tmp_path))
    config = {"folder": str(tmp_path)} if is_attached else {}
    run_id = store.runs.add(
        Launch("train.py", config, "ada", command=command, demand=Demand(0 if is_attached else 1, 0, 1, 1))
    )
    store.claims.claim(run_id, me(), ())
    run, folder = store.worker.begin(run_id, me(), {}), home.run_folder(run_id)
    folder.mkdir(parents=True)
    (folder / "pids").write_text("4711\n")
    values = [0.5, float("nan"), 0.25, 0.25, float("inf"), 1.5]
    records = (events.record(events.event(time.time(), 7, events.scalar("loss", value))) for value in values)
    (tmp_path / f"events.out.tfevents.{int(time.time())}.{node()}.4711.0").write_bytes(b"".join(records))
    store.worker.write(run_id, [], [Point("loss", 7, value, 0.0) for value in values[:3]])
    for _ in range(2):  # the first runner was killed too, before it had noted the end
        store_rest(store, run, folder)
    (curve,) = store.read.points.recordings(run_id)
    assert [str(point.value) for point in store.read.points.page(curve.id, after=-1)] == [str(each) for each in values]
    assert not (folder / "pids").exists()
