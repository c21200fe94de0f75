"""The doctor's job on the nodes of a real Slurm."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.home import ROOT, Home
from tests.waiting import PATIENCE_S

pytestmark = [pytest.mark.cluster, pytest.mark.processes]


def doctor(home: Home, slurm: Any, *options: str) -> tuple[int, dict[str, dict[str, str]]]:
    ended = subprocess.run(
        [sys.executable, "-m", "engine", "doctor", "--cluster", "lab", "--json", *options],
        cwd=ROOT,
        env=os.environ | slurm.environment | {"PARALLAB_HOME": str(home.path)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert ended.stdout, ended.stderr
    return ended.returncode, {one["name"]: one for one in json.loads(ended.stdout)["findings"]}


def configure(home: Home, shared: Path, *lines: str) -> None:
    home.create().clusters.write_text("\n".join(("[lab]", f'shared = "{shared}"', "cores = 1", *lines)))
    home.clusters.chmod(0o600)


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    (tmp_path / "shared").mkdir()
    return tmp_path / "shared"


def test_two_nodes_answer_and_nothing_is_left_behind(home: Home, shared: Path, slurm: Any) -> None:
    configure(home, shared, 'partition = "low"', "nodes = 2", "trusted = true")
    code, findings = doctor(home, slurm)
    assert code == 0, findings
    for name in ("start", "shared files", "clocks", "code", "python and torch", "interfaces", "ports"):
        assert findings[name]["state"] == "ok", findings[name]
    assert "n1" in findings["cores"]["sentence"]
    assert "n2" in findings["cores"]["sentence"]
    assert not list((shared / "parallab-jobs").iterdir())


def test_a_job_that_cannot_start_python_is_reported_with_its_output(home: Home, shared: Path, slurm: Any) -> None:
    configure(home, shared, 'partition = "low"', 'python = "/nowhere/python"')
    code, findings = doctor(home, slurm)
    assert (code, findings["nodes"]["state"]) == (1, "fail")
    assert "/nowhere/python" in findings["nodes"]["sentence"]
    assert not list((shared / "parallab-jobs").iterdir())


def test_a_partition_that_slurm_does_not_know_is_reported(home: Home, shared: Path, slurm: Any) -> None:
    configure(home, shared, 'partition = "nowhere"')
    code, findings = doctor(home, slurm)
    assert (code, findings["submit"]["state"]) == (1, "fail")
    assert "partition" in findings["submit"]["sentence"]


def test_a_job_that_has_to_wait_is_cancelled_and_slurms_reason_told(home: Home, shared: Path, slurm: Any) -> None:
    configure(home, shared, 'partition = "low"', "nodes = 2")
    environment = os.environ | slurm.environment
    held = ["sbatch", "--parsable", "--partition=low", "--nodes=2", "--exclusive", "--output=/dev/null"]
    job_id = subprocess.check_output([*held, "--wrap", "sleep 300"], env=environment, cwd=shared, text=True).strip()
    try:
        code, findings = doctor(home, slurm, "--wait", "2")
        assert (code, findings["start"]["state"]) == (0, "warn")
        assert "cancelled" in findings["start"]["sentence"]
        assert not list((shared / "parallab-jobs").iterdir())
    finally:
        subprocess.run(["scancel", job_id], env=environment, check=True)
