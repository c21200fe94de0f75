"""Runs on a cluster's GPUs: a real Slurm gives the GPU, and the ranks of its job compute on it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.home import Home
from engine.store import Reader
from tests.cluster.lab import ClusterLab
from tests.cluster.slurm import SlurmLab, missing

pytestmark = [pytest.mark.gpu, pytest.mark.cluster, pytest.mark.processes]
DEVICE = Path("/dev/nvidia0")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterLab]:
    """Return a cluster of one node with one GPU, and its runner."""
    if lacking := missing():
        pytest.skip(f"Slurm is not installed: {', '.join(lacking)} not found.")
    if not DEVICE.exists():
        pytest.skip(f"{DEVICE}, which Slurm is to give to jobs, does not exist.")
    folder = tmp_path_factory.mktemp("gpu-cluster")
    with (
        SlurmLab(folder / "slurm", nodes=1, gpus=(str(DEVICE),)) as slurm,
        ClusterLab(Home(folder / "home").create(), slurm, folder / "shared", "gpus = 1") as made,
    ):
        yield made


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("reference", {"epochs": 2}),
        ("parameter_server", {"trainers": 1, "batch_update_size": 1}),
        ("sync_sgd", {"trainers": 2, "rounds": 5, "sync": "ddp"}),
        ("hogwild", {"trainers": 2}),
        ("pipeline", {"batches": 5}),
    ],
)
def test_a_job_computes_on_the_gpu_that_slurm_gave(lab: ClusterLab, name: str, settings: dict[str, Any]) -> None:
    run_id = lab.launch(name, device="cuda", **settings)
    run = lab.ended(run_id)
    assert (run.status, run.cause) == ("finished", "Completed successfully"), lab.events(run_id)
    with Reader.open(lab.home) as reader:
        assert {rank.device for rank in reader.details.ranks(run_id)} == {"cuda:0"}
        assert {"gpu0", "host"} <= {sample.source for sample in reader.details.machine(run_id)}


def test_the_doctor_sees_the_gpu_of_a_node(lab: ClusterLab) -> None:
    said = lab.command("doctor", "--cluster", "lab")
    assert "NVIDIA" in said, said
