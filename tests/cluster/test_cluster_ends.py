"""A run whose job the cluster ends: Slurm's state decides how the run ended, not its worker, which sees SIGTERM."""

import os
from pathlib import Path

import pytest

from engine.cluster.supervisor import ClusterJobs
from engine.home import Home
from engine.launch_options import LaunchOptions
from engine.runtime.worker.job_folder import JobFolder, JobSpec
from engine.runtime.worker.records import RecordFile
from engine.store import Demand, Launch, Store


def begun(store: Store, folder: Path) -> int:
    """Add a run with one retry whose job's worker has begun it and ended it after SIGTERM; return its id."""
    run_id = store.runs.add(
        Launch("hogwild", {}, "ada", terms=LaunchOptions(target="lab", max_retries=1), demand=Demand(2, 0, 2, 1))
    )
    store.cluster_jobs.plan(run_id, "lab", "abc", str(folder))
    job = store.read.cluster_jobs.of(run_id)
    assert job
    store.cluster_jobs.submitted(job, "7")
    JobFolder(folder).create(JobSpec(version="1", run_id=run_id, cluster="lab", experiment="hogwild", config={}))
    records = RecordFile(JobFolder(folder))
    records.begin({"host": "n1"}, [0], [], 1)
    records.running(1.0)
    records.end("cancelled", "The worker got SIGTERM.", "", 5.0)
    return run_id


@pytest.mark.processes
@pytest.mark.parametrize(
    ("state", "status", "words", "retried"),
    [
        ("PREEMPTED", "lost", "was preempted by another job", True),
        ("TIMEOUT", "lost", "reached its time limit on the cluster", True),
        ("NODE_FAIL", "lost", "lost a node", True),
        ("CANCELLED", "cancelled", "was cancelled on the cluster", False),
    ],
)
def test_slurms_state_decides_how_a_run_ended_that_its_worker_recorded_as_cancelled(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str, status: str, words: str, retried: bool
) -> None:
    (tmp_path / "squeue").write_text(f"#!/bin/sh\necho '7|{state}|None|n1|parallab-1-abc'\n")
    (tmp_path / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with Store.open(home.create()) as store:
        run_id, jobs = begun(store, tmp_path / "job"), ClusterJobs(home, store)
        jobs.step()
        assert store.read.runs.one(run_id).status == "running", "records can still come"
        with store.db.change() as connection:
            connection.execute("UPDATE cluster_jobs SET grown_at = '2000-01-01T00:00:00.000Z'")
        jobs.step()
        run = store.read.runs.one(run_id)
        assert (run.status, words in run.cause) == (status, True), run.cause
        assert (store.read.runs.count() == 2) == retried


@pytest.mark.processes
def test_a_run_that_a_person_cancelled_ends_with_the_workers_record(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "squeue").write_text("#!/bin/sh\necho '7|RUNNING|None|n1|parallab-1-abc'\n")
    (tmp_path / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with Store.open(home.create()) as store:
        run_id = begun(store, tmp_path / "job")
        job = store.read.cluster_jobs.of(run_id)
        assert job
        store.cluster_jobs.begin(run_id, "on n1", "{}", "[]", "[]")
        store.runs.cancel(run_id, by="mo")
        ClusterJobs(home, store).step()
        run = store.read.runs.one(run_id)
        assert (run.status, "mo" in run.cause) == ("cancelled", True)


@pytest.mark.processes
def test_a_planned_job_of_a_cluster_that_was_removed_waits_and_delays_no_other(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "squeue").write_text("#!/bin/sh\n")
    (tmp_path / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with Store.open(home.create()) as store:
        run_id = store.runs.add(
            Launch("hogwild", {}, "ada", terms=LaunchOptions(target="gone"), demand=Demand(2, 0, 2, 1))
        )
        store.cluster_jobs.plan(run_id, "gone", "def", str(tmp_path / "other"))
        other = begun(store, tmp_path / "job")
        ClusterJobs(home, store).step()
        assert [store.read.runs.one(one).status for one in (run_id, other)] == ["queued", "running"]
