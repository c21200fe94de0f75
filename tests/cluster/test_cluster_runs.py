"""Runs on a real Slurm: what they learn, how they end, and what is left of them."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.home import Home
from tests.cluster.lab import ClusterLab, nothing_is_left, worker_of
from tests.cluster.slurm import SlurmLab
from tests.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.processes]


@pytest.fixture
def lab(home: Home, tmp_path: Path, slurm: SlurmLab) -> Iterator[ClusterLab]:
    with ClusterLab(home, slurm, tmp_path / "shared") as made:
        yield made


@pytest.mark.parametrize(
    ("name", "nodes", "settings"),
    [
        ("reference", 1, {"epochs": 5}),
        ("sync_sgd", 1, {"rounds": 10}),
        ("sync_sgd", 2, {"rounds": 10}),
        ("sync_sgd", 2, {"rounds": 10, "transport": "rpc"}),
        ("pipeline", 2, {"transport": "rpc", "batches": 20}),
        ("batched_reinforce", 2, {"transport": "rpc", "episodes": 3}),
    ],
)
def test_a_run_learns_the_same_as_on_this_machine(
    lab: ClusterLab, name: str, nodes: int, settings: dict[str, Any]
) -> None:
    there, here = lab.launch(name, nodes, **settings), lab.launch(name, on="", **settings)
    found = lab.ended(there)
    assert (found.status, found.cause) == ("finished", "Completed successfully"), lab.events(there)
    assert lab.wait_for(here, "finished", "failed").status == "finished"
    curves = lab.curves(there)
    assert curves and curves == lab.curves(here)
    assert (lab.home.run_folder(there) / "logs" / "worker.log").exists()
    nothing_is_left(lab)


@pytest.mark.parametrize(
    ("name", "nodes", "settings"),
    [
        ("hogwild", 1, {}),
        ("dppo", 1, {}),
        ("parameter_server", 2, {"transport": "rpc"}),
        ("async_sgd", 2, {"transport": "rpc"}),
    ],
)
def test_a_run_without_an_order_of_its_updates_ends_well(
    lab: ClusterLab, name: str, nodes: int, settings: dict[str, Any]
) -> None:
    run_id = lab.launch(name, nodes, **settings)
    found = lab.ended(run_id)
    assert (found.status, found.cause) == ("finished", "Completed successfully"), lab.events(run_id)
    here = lab.launch(name, on="", **settings)
    assert lab.wait_for(here, "finished", "failed").status == "finished"
    assert {key: len(points) for key, points in lab.curves(run_id).items() if key[0].startswith("train/")}.keys() == {
        key: len(points) for key, points in lab.curves(here).items() if key[0].startswith("train/")
    }.keys()
    nothing_is_left(lab)


def test_a_cancelled_run_gives_its_allocation_back(lab: ClusterLab) -> None:
    run_id = lab.launch("sync_sgd", 2, rounds=100_000)
    lab.wait_for(run_id, "running")
    lab.command("cancel", str(run_id))
    assert lab.ended(run_id).cause.startswith("Cancelled by")
    nothing_is_left(lab)


def test_a_dead_rank_on_another_node_ends_the_run_with_its_name(lab: ClusterLab) -> None:
    run_id = lab.launch("sync_sgd", 2, rounds=100_000)
    lab.wait_for(run_id, "running")
    wait_until(lambda: lab.curves(run_id), "it trains")
    os.kill(lab.pid_of(run_id, "trainer2"), signal.SIGKILL)
    found = lab.ended(run_id)
    assert found.status == "failed" and "trainer2 (rank 1" in found.cause and "on node n2" in found.cause
    nothing_is_left(lab)


def test_a_run_whose_worker_was_killed_is_retried_from_its_checkpoint(lab: ClusterLab) -> None:
    run_id = lab.launch("reference", retries=1, epochs=1000, checkpoint_every_s=1.0)
    lab.wait_for(run_id, "running")
    wait_until(lambda: (lab.home.run_folder(run_id) / "checkpoint.pt").exists(), "a checkpoint came back")
    worker_of(lab).kill()
    found = lab.ended(run_id)
    assert found.status == "lost" and f"tried again as run {run_id + 1}" in found.cause
    lab.wait_for(run_id + 1, "running")
    assert any(event.startswith("resumes") for event in lab.events(run_id + 1))
    lab.command("cancel", str(run_id + 1))
    lab.ended(run_id + 1)
    nothing_is_left(lab)


def test_no_point_is_lost_or_doubled_while_runners_are_killed(lab: ClusterLab) -> None:
    run_id = lab.launch("reference", epochs=30)
    here = lab.launch("reference", on="", epochs=30)
    for _ in range(4):
        wait_until(lambda: lab.has_job(run_id) or lab.run(run_id).status == "finished", "the run goes on")
        lab.kill_runner()
        lab.start_runner()
        seen = sum(map(len, lab.curves(run_id).values()))
        wait_until(
            lambda seen=seen: sum(map(len, lab.curves(run_id).values())) > seen or lab.run(run_id).status == "finished",
            "the next runner takes records",
        )
    assert lab.ended(run_id).status == "finished"
    lab.wait_for(here, "finished", "failed", "lost")
    if lab.run(here).status == "finished":
        assert lab.curves(run_id) == lab.curves(here)
    steps = [step for step, _ in lab.curves(run_id)["train/loss", 0]]
    assert steps == sorted(set(steps))
    nothing_is_left(lab)


def test_the_runs_of_a_sweep_share_the_bound_of_jobs(home: Home, tmp_path: Path, slurm: SlurmLab) -> None:
    with ClusterLab(home, slurm, tmp_path / "shared", "max_jobs = 1") as lab:
        rates = ("--over", "learning_rate=0.01,0.05")
        lab.command("sweep", "launch", "reference", "--preset", "quick", "--set", "epochs=5", *rates, "--on", "lab")
        seen = set()

        def ended() -> bool:
            jobs = [state for state in lab.slurm.jobs().values() if state in ("PENDING", "RUNNING")]
            seen.add(len(jobs))
            return all(lab.run(run_id).status == "finished" for run_id in (1, 2))

        wait_until(ended, "both runs have finished")
        assert max(seen) == 1
        lab.ended(2)
        nothing_is_left(lab)


def test_a_job_that_slurm_refuses_says_why(home: Home, tmp_path: Path, slurm: SlurmLab) -> None:
    with ClusterLab(home, slurm, tmp_path / "shared", 'partition = "nosuch"') as lab:
        run_id = lab.launch("reference")
        found = lab.wait_for(run_id, "failed")
        assert "invalid partition" in found.cause.lower()
        nothing_is_left(lab)


@pytest.mark.parametrize("node", ["n1", "n2"])
def test_a_run_without_a_slurmstepd_ends_with_its_allocation(lab: ClusterLab, node: str) -> None:
    """That of the worker on the first node, or of the agent on the second."""
    run_id = lab.launch("sync_sgd", 2, rounds=100_000)
    lab.wait_for(run_id, "running")
    for pid in lab.slurm.steps(node):
        os.kill(pid, signal.SIGKILL)
    found = lab.ended(run_id)
    assert found.status == ("lost" if node == "n1" else "failed")
    assert node == "n2" or "slurmstepd" in found.cause
    nothing_is_left(lab)


def test_a_job_gets_as_many_gpus_as_its_run_asks_for(home: Home, tmp_path: Path, slurm_installed: None) -> None:
    """The GPUs are other device files: torch can use none of them, and the run says so."""
    with (
        SlurmLab(tmp_path / "slurm", nodes=1, gpus=("/dev/null", "/dev/zero", "/dev/full")) as slurm,
        ClusterLab(home, slurm, tmp_path / "shared", "gpus = 3") as lab,
    ):
        run_id = lab.launch("pipeline", device="cuda")
        found = lab.ended(run_id)
        assert (found.demand.gpus, found.gpus) == (2, (0, 1)), (found.cause, lab.events(run_id))
        assert found.cause.startswith("The run was given an NVIDIA GPU, but torch "), found.cause
