"""Commands of a lab's own script on a real Slurm: a sweep, its curves, and the end of one of its runs."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.home import Home
from tests.cluster.lab import ClusterLab, nothing_is_left
from tests.cluster.slurm import SlurmLab
from tests.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.processes]
SCRIPT = """
import argparse, os, signal, subprocess, sys, time

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
lr = parser.parse_args().lr
print("job", os.environ["SLURM_JOB_ID"], "store", os.path.exists(os.environ["STORE"]), flush=True)
for step in range(3):
    print(f"step {step} loss: {lr / (step + 1)}", flush=True)
if lr == 0.3:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    daemon = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(3600)"
    subprocess.Popen([sys.executable, "-c", daemon, __file__], start_new_session=True)
    print("waits", flush=True)
    time.sleep(3600)
"""


@pytest.fixture
def lab(home: Home, tmp_path: Path, slurm: SlurmLab) -> Iterator[ClusterLab]:
    with ClusterLab(home, slurm, tmp_path / "shared") as made:
        yield made


def test_a_sweep_of_a_script_has_its_curves_and_a_cancelled_run_leaves_nothing(lab: ClusterLab) -> None:
    project = lab.shared / "project"
    project.mkdir()
    script = project / "train.py"
    script.write_text(SCRIPT)
    options = ("--over", "lr=0.1,0.2,0.3", "--on", "lab", "--folder", str(project), "--python", sys.executable)
    lab.command("sweep", *options, "--", f"STORE={lab.home.database}", "python", str(script), "--lr", "0.1")
    log = lab.home.run_folder(3) / "logs" / "script.log"
    wait_until(lambda: log.exists() and "waits" in log.read_text(), f"run 3 waits: {lab.log()}")
    wait_until(lambda: len(lab.values(3, "loss")) == 3, "its curve is there while it runs")
    lab.command("cancel", "3")
    cancelled = lab.ended(3)
    assert cancelled.status == "cancelled" and cancelled.cause.startswith("Cancelled by"), cancelled.cause
    for run_id, rate in enumerate((0.1, 0.2, 0.3), 1):
        run = lab.ended(run_id)
        assert run.status == "finished" or run_id == 3, (run.cause, lab.events(run_id))
        assert lab.values(run_id, "loss") == [rate, rate / 2, rate / 3]
        is_hidden = run.environment["confinement"].startswith("sandbox")
        words = (lab.home.run_folder(run_id) / "logs" / "script.log").read_text()
        assert f"job {run.environment['slurm']['job_id']} store {not is_hidden}" in words
    nothing_is_left(lab)
