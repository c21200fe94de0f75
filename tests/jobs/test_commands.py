"""A job of a command, as a node of a cluster executes it: without the store, with everything in its file of records."""

import subprocess
import sys
from pathlib import Path

import pytest

from engine.cluster.job_folder import JobFolder, JobSpec
from engine.cluster.records import EndRecord, WriteRecord, tail_of
from engine.home import ROOT
from engine.script.command import read_command
from engine.script.enrich import enriched
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.processes
SCRIPT = """import argparse, sys
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
lr = parser.parse_args().lr
for step in range(3):
    print(f"step {step} loss: {lr / (step + 1)}", flush=True)
sys.exit(3)
"""


def test_a_job_of_a_command_records_its_curve_its_log_and_its_end(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    command = enriched(read_command("python train.py --lr 0.1", str(tmp_path), sys.executable))
    folder = JobFolder(tmp_path / "job")
    spec = JobSpec(
        version="1", run_id=7, cluster="gpu", experiment="train.py", config={"lr": 2.0}, command=command.plain()
    )
    folder.create(spec)
    words = [sys.executable, "-c", "import sys\nfrom engine.cluster.job import run_job\nrun_job(sys.argv[1])"]
    done = subprocess.run([*words, str(folder.path)], cwd=ROOT, timeout=PATIENCE_S, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    records = [line.record() for line in tail_of(folder.records.read_bytes(), 0, last=True).lines]
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
    assert "loss: " in (folder.run / "logs" / "script.log").read_text()
    assert "exited with code 3" in end.cause
