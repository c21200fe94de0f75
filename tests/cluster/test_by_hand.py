"""A run over two hosts without Slurm, each started by hand with torchrun."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from engine.home import ROOT, Home
from tests.cluster.lab import ClusterLab
from tests.cluster.namespaces import NodeNamespaces, refusal
from tests.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.processes]
PORT = "29411"


@pytest.fixture
def hosts() -> Iterator[NodeNamespaces]:
    if why := refusal():
        pytest.skip(why)
    with NodeNamespaces() as made:
        yield made


@pytest.fixture
def lab(home: Home, tmp_path: Path) -> Iterator[ClusterLab]:
    with ClusterLab(home, None, tmp_path / "shared", "by_hand = true") as made:
        yield made


def commands(lab: ClusterLab, run_id: int, hosts: NodeNamespaces) -> Iterator[list[str]]:
    """Yield what a person types on each host, from what the run's page says."""
    wait_until(lambda: any("torchrun" in event for event in lab.events(run_id)), "the run says how to start it")
    (line,) = [event for event in lab.events(run_id) if "torchrun" in event]
    words = line.partition("torchrun ")[2].split()
    master = hosts.addresses[hosts.nodes[0]]
    for number, host in enumerate(hosts.nodes):
        filled = [{"K": str(number), "HOST": master, "PORT": PORT}.get(word, word) for word in words]
        yield [*hosts.enter(host), sys.executable, "-m", "torch.distributed.run", *filled]


def ours(lab: ClusterLab) -> list[psutil.Process]:
    return [process for process in lab.processes() if "torch.distributed.run" not in process.cmdline()]


def start(command: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)})


def test_a_run_over_two_hosts_learns_the_same_as_here(lab: ClusterLab, hosts: NodeNamespaces) -> None:
    run_id, here = lab.launch("sync_sgd", 2, rounds=10), lab.launch("sync_sgd", on="", rounds=10)
    started = [start(command) for command in commands(lab, run_id, hosts)]
    found = lab.ended(run_id)
    assert (found.status, found.cause) == ("finished", "Completed successfully"), lab.events(run_id)
    for process in started:
        process.wait()
    lab.wait_for(here, "finished")
    assert lab.curves(run_id) == lab.curves(here)
    assert list((lab.shared / "parallab-jobs").iterdir()) == []


def test_a_cancel_ends_the_processes_on_both_hosts(lab: ClusterLab, hosts: NodeNamespaces) -> None:
    run_id = lab.launch("sync_sgd", 2, rounds=100_000)
    started = [start(command) for command in commands(lab, run_id, hosts)]
    lab.wait_for(run_id, "running")
    lab.command("cancel", str(run_id))
    assert lab.ended(run_id).status == "cancelled"
    for process in started:
        process.wait()
    wait_until(lambda: not list(lab.processes()), "no process of the job is left")


def test_a_host_that_is_cut_off_ends_the_run_on_both_sides(lab: ClusterLab, hosts: NodeNamespaces) -> None:
    run_id = lab.launch("sync_sgd", 2, rounds=100_000)
    started = [start(command) for command in commands(lab, run_id, hosts)]
    lab.wait_for(run_id, "running")
    wait_until(lambda: lab.curves(run_id), "it trains")
    hosts.cut("n2")
    found = lab.wait_for(run_id, "failed")
    assert "is lost" in found.cause
    wait_until(lambda: not ours(lab), "no process of the job is left but torchrun's own, which wait for each other")
    hosts.heal("n2")
    for process in started:
        process.kill()
        process.wait()
