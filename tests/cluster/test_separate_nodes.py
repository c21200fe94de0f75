"""Runs over nodes that are separate hosts to the network: who listens where, and the loss of a link."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.home import Home
from tests.cluster.lab import ClusterLab
from tests.cluster.namespaces import NodeNamespaces
from tests.cluster.slurm import SlurmLab
from tests.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.processes]


@pytest.fixture
def lab(home: Home, tmp_path: Path, separate_nodes: SlurmLab) -> Iterator[ClusterLab]:
    with ClusterLab(home, separate_nodes, tmp_path / "shared") as made:
        yield made


def listeners(namespaces: NodeNamespaces, node: str, pids: set[int]) -> list[str]:
    """Return the addresses at which some processes listen on a node."""
    shown = subprocess.run(
        [*namespaces.enter(node), "ss", "--tcp", "--listening", "--numeric", "--processes", "--no-header"],
        capture_output=True,
        text=True,
        check=True,
    )
    return [line.split()[3] for line in shown.stdout.splitlines() if any(f"pid={pid}," in line for pid in pids)]


@pytest.mark.parametrize("transport", ["gloo", "rpc"])
def test_ranks_listen_on_the_clusters_interface_alone(
    lab: ClusterLab, namespaces: NodeNamespaces, transport: str
) -> None:
    run_id = lab.launch("sync_sgd", 2, rounds=100_000, transport=transport)
    lab.wait_for(run_id, "running")
    wait_until(lambda: lab.curves(run_id), "it trains")
    pids = {process.pid for process in lab.processes() if process.name() != "srun"}  # Slurm's own listens everywhere
    for node in namespaces.nodes:
        found = listeners(namespaces, node, pids)
        assert found, f"nothing listens on {node}"
        assert {address.rpartition(":")[0] for address in found} == {namespaces.addresses[node]}
    lab.command("cancel", str(run_id))
    lab.ended(run_id)


def test_a_lost_link_ends_the_run_and_leaves_no_process_on_either_side(
    lab: ClusterLab, namespaces: NodeNamespaces
) -> None:
    run_id = lab.launch("sync_sgd", 2, rounds=100_000)
    lab.wait_for(run_id, "running")
    wait_until(lambda: lab.curves(run_id), "it trains")
    namespaces.cut("n2")
    found = lab.wait_for(run_id, "failed", "lost")
    assert "n2" in found.cause
    wait_until(lambda: not list(lab.processes()), "no process of the job is left")
    namespaces.heal("n2")
