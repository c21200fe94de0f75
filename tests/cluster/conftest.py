"""Clusters for tests: one that the tests of a process share, and one whose nodes are separate hosts to the network."""

from collections.abc import Iterator

import pytest

from tests.cluster.namespaces import NodeNamespaces, refusal
from tests.cluster.slurm import SlurmLab, missing


@pytest.fixture(scope="session")
def slurm_installed() -> None:
    """Skip tests on a machine without Slurm."""
    if lacking := missing():
        pytest.skip(f"Slurm is not installed ({', '.join(lacking)} not found): run make test-cluster.")


@pytest.fixture(scope="session")
def shared_slurm(slurm_installed: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmLab]:
    """Start a cluster of 2 nodes once."""
    with SlurmLab(tmp_path_factory.mktemp("slurm")) as lab:
        yield lab


@pytest.fixture
def slurm(shared_slurm: SlurmLab) -> Iterator[SlurmLab]:
    """Return a cluster of 2 idle nodes; afterwards, cancel jobs and restart daemons that have ended."""
    yield shared_slurm
    shared_slurm.restore()


@pytest.fixture
def namespaces(slurm_installed: None) -> Iterator[NodeNamespaces]:
    """Return two connected network namespaces, n1 and n2."""
    if why := refusal():
        pytest.skip(why)
    with NodeNamespaces() as made:
        yield made


@pytest.fixture
def separate_nodes(namespaces: NodeNamespaces, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmLab]:
    """Start a cluster over `namespaces`."""
    with SlurmLab(tmp_path_factory.mktemp("slurm"), namespaces=namespaces) as lab:
        yield lab
