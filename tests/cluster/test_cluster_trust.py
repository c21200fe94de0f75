"""What a job on a cluster may and gets: the promises of docs/security.md."""

import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.cluster import slurm as commands
from engine.cluster.doctor import examine_cluster
from engine.cluster.targets import clusters
from engine.errors import ConfigError
from engine.home import ROOT, Home
from engine.launch_options import LaunchOptions
from engine.runtime.worker.job_folder import JobFolder, JobSpec
from engine.runtime.worker.records import RecordFile
from engine.store import Demand, Launch, Store
from tests.waiting import PATIENCE_S

TABLE = '[lab]\nshared = "/shared"\ncores = 2\n'


def configure(home: Home, text: str = TABLE, mode: int = 0o600) -> None:
    home.create().clusters.write_text(text)
    home.clusters.chmod(mode)


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_list_of_clusters_that_others_can_change_is_refused(home: Home, mode: int) -> None:
    configure(home, mode=mode)
    with pytest.raises(ConfigError, match="other users can change it"):
        clusters(home)
    configure(home, mode=0o644)
    assert [*clusters(home)] == ["lab"]


@pytest.mark.parametrize(
    "line",
    [
        'partition = "low --uid=0"',
        'account = "a\'b"',
        'modules = ["cuda; reboot"]',
        'constraint = "$(reboot)"',
        'interface = "eth0 x"',
        'shared = "relative"',
        'data = "/data/../etc"',
        'python = "python"',
        "trusted = 2",
        'command = "reboot"',
    ],
)
def test_no_value_of_a_cluster_can_add_options_or_shell_words(home: Home, line: str) -> None:
    configure(home, f"{TABLE.replace('shared', '#') if line.startswith('shared') else TABLE}{line}\n")
    with pytest.raises(ConfigError, match=line.partition(" ")[0]):
        clusters(home)


@pytest.fixture
def batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put an sbatch on PATH that keeps what it was given; return that file's path."""
    (tmp_path / "bin").mkdir()
    for name, text in (("sbatch", f'cp "$1" {tmp_path}/batch; echo Submitted batch job 7'), ("srun", "exit 1")):
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    return tmp_path / "batch"


@pytest.mark.processes
def test_a_job_names_its_person_exports_few_variables_and_is_never_requeued(
    home: Home, tmp_path: Path, batch: Path
) -> None:
    configure(home, TABLE.replace("/shared", str(tmp_path)))
    with Store.open(home) as store:
        run_id = store.runs.add(
            Launch("hogwild", {}, "ada'; $(x)", terms=LaunchOptions(target="lab"), demand=Demand(2, 0, 2, 1))
        )
        store.cluster_jobs.plan(run_id, "lab", "abc", str(tmp_path / "job"))
        run, job = store.read.runs.one(run_id), store.read.cluster_jobs.of(run_id)
    assert job
    assert commands.submit(clusters(home)["lab"], run, job, 1) == "7"
    script = batch.read_text()
    asked = dict(re.findall(r"^#SBATCH --([\w-]+)(?:=(.*))?$", script, re.M))
    assert asked["export"] == "PATH,HOME,USER,LANG,PARALLAB_HANG_S,PARALLAB_CONFINEMENT"
    assert asked["comment"] == f"'Parallab run {run_id} of ada?? ??x?'"
    assert "no-requeue" in asked
    assert "srun" not in script.replace(str(tmp_path), "")


def test_a_jobs_folder_and_its_records_are_readable_only_by_their_owner(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path / "run-1-abc")
    folder.create(JobSpec(version="1", run_id=1, cluster="lab", experiment="hogwild", config={}))
    RecordFile(folder)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (folder.path, folder.run, folder.records)] == [
        0o700,
        0o700,
        0o600,
    ]


@pytest.mark.processes
def test_the_doctor_fails_for_a_folder_of_jobs_that_others_can_change(home: Home, tmp_path: Path, batch: Path) -> None:
    for name in ("squeue", "scancel"):
        (batch.parent / "bin" / name).write_text("#!/bin/sh\n")
        (batch.parent / "bin" / name).chmod(0o755)
    configure(home, TABLE.replace("/shared", str(tmp_path)))
    (tmp_path / "parallab-jobs").mkdir()
    (tmp_path / "parallab-jobs").chmod(0o777)
    last = [*examine_cluster(home, "lab", 1)][-1]
    assert (last.name, last.state) == ("shared folder", "fail")
    assert "can be changed by other users" in last.sentence


@pytest.mark.cluster
@pytest.mark.processes
def test_a_real_job_gets_no_secret_and_no_option_of_the_runners_environment(
    home: Home, tmp_path: Path, slurm: Any
) -> None:
    (tmp_path / "shared").mkdir()
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nenv > {tmp_path}/environment\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    configure(home, f'[lab]\nshared = "{tmp_path}/shared"\ncores = 1\npartition = "low"\npython = "{python}"\n')
    secret = {
        "PARALLAB_MAIL_PASSWORD": "secret",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "HTTP_PROXY": "http://u:p@x",
        "SLURM_SITE_KEY": "secret",  # Slurm exports all SLURM_* whatever --export says
    }
    options = {
        "SBATCH_EXPORT": "ALL",
        "SLURM_EXPORT_ENV": "ALL",
        "SBATCH_PARTITION": "high",
        "SBATCH_TIMELIMIT": "77",
        "SQUEUE_PARTITION": "high",
        "SQUEUE_STATES": "FAILED",
        "SCANCEL_STATE": "SUSPENDED",
    }
    ended = subprocess.run(
        [sys.executable, "-m", "engine", "doctor", "--cluster", "lab"],
        cwd=ROOT,
        env=os.environ | slurm.environment | secret | options | {"PARALLAB_HOME": str(home.path)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    found = (tmp_path / "environment").read_text()  # with what the user's login shell on the node sets
    assert "SLURM_JOB_PARTITION=low\n" in found
    assert not [name for name in (*secret, "PARALLAB_HOME", "PYTEST_CURRENT_TEST") if f"{name}=" in found]
    assert "secret" not in found
