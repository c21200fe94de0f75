"""A job of a command, as a node of a cluster executes it: without the store, with everything in its file of records."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from engine.errors import ConfigError
from engine.home import ROOT, Home
from engine.launch import launch
from engine.launch_options import LaunchOptions
from engine.runtime.worker.job_folder import JobFolder, JobSpec
from engine.runtime.worker.records import EndRecord, NoteRecord, Record, WriteRecord, tail_of
from engine.script.command import read_command
from engine.script.enrich import enriched
from engine.store import Launch
from engine.system.confinement import machine_confinement
from tests.labs import clusters
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.processes
SCRIPT = """import argparse, os, sys
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
lr = parser.parse_args().lr
for step in range(3):
    print(f"step {step} loss: {lr / (step + 1)}", flush=True)
job = os.path.dirname(os.environ["PARALLAB_RUN_FOLDER"])
print("sees", sorted(os.listdir(os.path.dirname(job))), sorted(os.listdir(job)), os.path.exists(os.environ["STORE"]))
sys.exit(3)
"""


@pytest.fixture
def job(tmp_path: Path) -> JobFolder:
    """A job of a script, beside one of another run; the node also sees the lab's home."""
    project, home = tmp_path / "project", Home(tmp_path / "home").create()
    home.database.touch()
    project.mkdir()
    (project / "train.py").write_text(SCRIPT)
    words = f"STORE={home.database} python train.py --lr 0.1"
    command = enriched(read_command(words, str(project), sys.executable))
    spec = JobSpec(
        version="1",
        run_id=7,
        cluster="gpu",
        experiment="train.py",
        config={"lr": 2.0},
        command=command.plain(),
        home=str(home.path),
    )
    other, folder = (JobFolder(tmp_path / "jobs" / name) for name in ("other", "job"))
    other.create(spec)
    folder.create(spec)
    return folder


def executed(folder: JobFolder) -> list[Record]:
    """Execute a job as a node does; return its records."""
    words = [sys.executable, "-c", "import sys\nfrom engine.cluster.job import run_job\nrun_job(sys.argv[1])"]
    environment = os.environ | {"SLURMD_NODENAME": "n1"}
    done = subprocess.run(
        [*words, str(folder.path)], cwd=ROOT, env=environment, timeout=PATIENCE_S, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return [line.record() for line in tail_of(folder.records.read_bytes(), 0, last=True).lines]


def test_a_job_of_a_command_records_its_curve_its_log_and_its_end(job: JobFolder) -> None:
    records = executed(job)
    end = records[-1]
    assert isinstance(end, EndRecord) and end.status == "failed", end
    written = [record for record in records if isinstance(record, WriteRecord)]
    points = [
        point
        for record in written
        for points in (record.points, *(b.points for b in record.batches))
        for point in points
    ]
    assert [point.value for point in points if point.name == "loss"] == [2.0, 1.0, 2 / 3]
    assert "exited with code 3" in end.cause
    level, _ = machine_confinement()
    (note,) = [each.value for each in records if isinstance(each, NoteRecord) and each.name == "confinement"]
    assert note.startswith(f"{level}: ")
    seen = "sees ['job'] ['run'] False" if level == "sandbox" else "sees ['job', 'other']"
    assert seen in (job.run / "logs" / "script.log").read_text()


def test_a_node_without_the_folder_of_a_command_says_where_it_has_to_be(job: JobFolder, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "project")
    end = executed(job)[-1]
    assert isinstance(end, EndRecord) and end.status == "failed"
    assert end.cause.startswith(f"On node n1: The folder {tmp_path / 'project'} doesn't exist on this machine.")
    assert end.cause.endswith(f"put both on a file system that is shared, such as below {tmp_path}.")


def test_a_command_is_not_spread_over_nodes(home: Home) -> None:
    clusters.write(home)
    command = read_command("torchrun --nproc-per-node 2 train.py")
    with pytest.raises(ConfigError, match=r"starts its processes on one node\. Choose 1 node\."):
        launch(home, Launch("train.py", {}, "ada", terms=LaunchOptions(target="lab", nodes=2), command=command))
