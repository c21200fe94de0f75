"""What Slurm's commands are given, and what their words mean."""

import subprocess
from pathlib import Path

import pytest

from engine.cluster.targets import Cluster
from engine.home import ROOT
from engine.jobs import slurm
from engine.jobs.slurm import SlurmRefused, SlurmUnavailable

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
