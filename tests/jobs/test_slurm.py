"""What Slurm's commands are given, and what their words mean."""

import os
import subprocess
from pathlib import Path

import pytest

from engine.cluster import slurm
from engine.cluster.slurm import SlurmRefused, SlurmUnavailable
from engine.cluster.targets import Cluster
from engine.home import ROOT

pytestmark = pytest.mark.processes


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("Batch job submission failed: Unable to contact slurm controller (connect failure)", SlurmUnavailable),
        ("resolve_ctls_from_dns_srv: res_nsearch error: Unknown host", SlurmUnavailable),
        ("Batch job submission failed: Invalid partition name specified", SlurmRefused),
    ],
)
def test_a_controller_that_can_not_be_asked_has_refused_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, kind: type[Exception]
) -> None:
    commands(tmp_path, monkeypatch, sbatch=f"echo 'sbatch: error: {words}' >&2\nexit 1", srun="")
    with pytest.raises(kind, match=words.partition(":")[0]):
        submit(tmp_path)


@pytest.mark.parametrize(
    ("installed", "named"), [({}, "sbatch and srun are"), ({"sbatch": ""}, "srun is"), ({"srun": ""}, "sbatch is")]
)
def test_what_is_missing_of_slurm_is_named_before_a_job_is_submitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: dict[str, str], named: str
) -> None:
    commands(tmp_path, monkeypatch, **installed)
    with pytest.raises(SlurmUnavailable, match=f"^{named} not installed on the runner's machine.*slurm-client"):
        submit(tmp_path)


def commands(folder: Path, monkeypatch: pytest.MonkeyPatch, **scripts: str) -> None:
    """Make shell scripts the only commands of Slurm."""
    for name, script in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


def submit(folder: Path) -> None:
    (folder / "job").mkdir()
    slurm.submit_probe(Cluster(name="lab", shared=folder, cores=1), "parallab-x", folder / "job", 1)


def test_a_job_ends_where_its_checkout_is_none(tmp_path: Path) -> None:
    for checkout in (tmp_path / "it isn't there", tmp_path):
        done = subprocess.run(["bash", "-c", "\n".join([*slurm._enter(checkout), "echo began"])], capture_output=True)
        assert done.returncode == 1
        assert f"{checkout} on this node is not a checkout of Parallab" in done.stdout.decode()
    done = subprocess.run(["bash", "-c", "\n".join([*slurm._enter(ROOT), "pwd"])], capture_output=True)
    assert done.stdout.decode().strip() == str(ROOT)


def test_variables_of_the_runner_change_no_command_of_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = dict.fromkeys(FOREIGN, "other") | dict.fromkeys(slurm.KEPT, "kept") | {"AWS_SECRET": "kept"}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    tell = f"/usr/bin/env > {tmp_path}/$(/usr/bin/basename $0).env"
    commands(tmp_path, monkeypatch, srun="", squeue=tell, scancel=tell, sacct=tell, sbatch=f"{tell}; echo job 7")
    submit(tmp_path)
    slurm.states()
    slurm.states_in_accounting(["7"])
    slurm.end_by_name("parallab-x")
    for command in ("sbatch", "squeue", "sacct", "scancel"):
        seen = dict(
            line.split("=", 1) for line in (tmp_path / f"{command}.env").read_text().splitlines() if "=" in line
        )
        assert {name: value for name, value in seen.items() if name in given} == dict.fromkeys(
            (*slurm.KEPT, "AWS_SECRET"), "kept"
        ), command
        assert seen["PATH"] == str(tmp_path)
    assert all(name in os.environ for name in FOREIGN), "other programs of the runner keep what they were given"


FOREIGN = (
    *("SBATCH_EXPORT", "SBATCH_PARTITION", "SBATCH_TIMELIMIT", "SBATCH_REQUEUE", "SLURM_EXPORT_ENV", "SLURM_CLUSTERS"),
    *("SLURM_JOB_ID", "SLURM_NTASKS", "SLURM_CONSTRAINT", "SLURMD_NODENAME", "SALLOC_PARTITION", "SRUN_EXPORT_ENV"),
    *("SQUEUE_STATES", "SQUEUE_PARTITION", "SQUEUE_FORMAT", "SCANCEL_INTERACTIVE", "SCANCEL_STATE", "SACCT_FEDERATION"),
)
