"""Runs on a cluster: what keeps a home in order leaves them and their jobs alone."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.errors import WrongStatus
from engine.home import Home
from engine.launch_options import LaunchOptions
from engine.recorder import Point
from engine.store import RankBatch, Reader, Store
from engine.store.queue.cluster_jobs import ClusterJob, JobState
from engine.transfer.bundles.bundle import write_bundle
from engine.transfer.import_child import import_path
from engine.upkeep import fsck
from engine.upkeep.backups import back_up, restore
from engine.upkeep.retention_policy import RetentionPolicy, collect, preview
from tests.upkeep.conftest import HOUR_AGO, found

POLICY = RetentionPolicy(thin_after_days=None, delete_after_days=30, points=100)
FEW_POINTS = RetentionPolicy(thin_after_days=30, delete_after_days=None, points=100)


def job_of(store: Store, run_id: int) -> ClusterJob:
    job = store.read.cluster_jobs.of(run_id)
    assert job
    return job


@pytest.fixture
def on_cluster(store: Store, add: Callable[..., int]) -> int:
    """A run whose job runs on a cluster, with 600 points and a log."""
    run_id = add(terms=LaunchOptions(target="lab", nodes=2))
    assert store.cluster_jobs.plan(run_id, "lab", "abc", "/shared/parallab-jobs/run-1-abc")
    store.cluster_jobs.submitted(job_of(store, run_id), "7")
    store.cluster_jobs.seen([(job_of(store, run_id), JobState("7", "RUNNING", "", "n1"))])
    assert store.cluster_jobs.begin(run_id, "on n1", '{"cluster": "lab"}', "[0]", "[]") == "starting"
    store.worker.mark_running(run_id, 1.0)
    points = [Point("train/loss", step, 1.0 / (step + 1), step / 10) for step in range(600)]
    assert store.cluster_jobs.advance(
        job_of(store, run_id), 100, 1, [lambda: store.worker.write(run_id, [RankBatch(0, points)])]
    )
    store.worker.add_log(run_id, "worker", "logs/worker.log")
    return run_id


def end(store: Store, run_id: int, days: float = 0) -> None:
    store.claims.end(run_id, "finished", "Completed successfully")
    with store.db.change() as connection:
        sql = "UPDATE runs SET ended_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?) WHERE id = ?"
        connection.execute(sql, [f"-{days} days", run_id])


def test_fsck_finds_no_lost_run_and_no_missing_folder_while_a_job_is_on(home: Home, on_cluster: int) -> None:
    assert list(fsck.examine(home)) == []


def test_fsck_finds_both_once_the_job_is_forgotten(home: Home, store: Store, on_cluster: int) -> None:
    store.cluster_jobs.remove(job_of(store, on_cluster))
    assert {trouble.kind for trouble in fsck.examine(home)} == {"lost run", "missing folder"}


def test_a_file_that_is_being_copied_is_no_leftover_until_the_job_is_forgotten(
    home: Home, store: Store, on_cluster: int, memory: Path
) -> None:
    part = home.run_folder(on_cluster) / "checkpoint.pt.part"
    part.parent.mkdir(parents=True)
    part.write_text("half")
    os.utime(part, (HOUR_AGO, HOUR_AGO))
    end(store, on_cluster)
    assert found(home, memory) == []
    store.cluster_jobs.remove(job_of(store, on_cluster))
    assert [one.name for one in found(home, memory)] == [str(part)]


def test_retention_takes_a_run_only_when_its_job_is_over(home: Home, store: Store, on_cluster: int) -> None:
    end(store, on_cluster, days=90)
    for policy in (POLICY, FEW_POINTS):
        assert (preview(home, policy).deleted, preview(home, policy).thinned) == ((), ())
    assert collect(home, POLICY, by="ada").deleted == ()
    store.cluster_jobs.remove(job_of(store, on_cluster))
    assert [run.run_id for run in collect(home, POLICY, by="ada").deleted] == [on_cluster]


def test_a_backup_holds_the_job_and_nothing_is_restored_while_one_is_on(
    home: Home, store: Store, add: Callable[..., int], on_cluster: int
) -> None:
    made, before = back_up(home, by="ada"), job_of(store, on_cluster)
    with pytest.raises(WrongStatus, match=f"while run {on_cluster} is active"):
        restore(home, made.path, by="ada")
    end(store, on_cluster)
    waiting = add(terms=LaunchOptions(target="lab"))
    assert store.cluster_jobs.plan(waiting, "lab", "def", "/shared/parallab-jobs/run-2-def")
    with pytest.raises(WrongStatus, match=f"while run {waiting} is active"):
        restore(home, made.path, by="ada")
    store.runs.cancel(waiting, by="ada")
    store.close()
    restore(home, made.path, by="ada")
    with Reader.open(home) as reader:
        assert reader.cluster_jobs.all() == [before], "the next runner continues from its position"
        run = reader.runs.one(on_cluster)
        assert (run.status, run.terms.target, run.terms.nodes) == ("running", "lab", 2)
    assert list(fsck.examine(home)) == []


def test_a_backup_restored_elsewhere_leaves_the_job_with_the_original_home(
    home: Home, store: Store, add: Callable[..., int], on_cluster: int, tmp_path: Path
) -> None:
    waiting = add(terms=LaunchOptions(target="lab"))
    assert store.cluster_jobs.plan(waiting, "lab", "def", "/shared/parallab-jobs/run-2-def")
    made, other = back_up(home, by="ada"), Home(tmp_path / "other")
    done = restore(other, made.path, by="ada")
    assert (done.lost, done.queued) == ([on_cluster], [waiting])
    with Reader.open(other) as reader:
        assert reader.cluster_jobs.all() == []
        assert reader.runs.one(on_cluster).status == "lost"


def test_a_bundle_brings_the_run_but_neither_its_job_nor_its_target(
    home: Home, store: Store, on_cluster: int, tmp_path: Path
) -> None:
    end(store, on_cluster)
    with Reader.open(home) as reader:
        write_bundle(reader, [on_cluster], tmp_path / "runs.zip", by="ada")
    with Store.open(Home(tmp_path / "theirs").create()) as theirs:
        (run_id,) = import_path(theirs, tmp_path / "runs.zip", by="lin").ids
        run = theirs.read.runs.one(run_id)
        assert (run.status, run.terms.target, run.environment["cluster"]) == ("finished", "", "lab")
        assert theirs.read.curves.series(run_id, ["train/loss"])[0].total == 600
        assert theirs.read.cluster_jobs.all() == []
        assert run.terms.nodes == 1, "its sweep can be extended here"
