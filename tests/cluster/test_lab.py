"""The clusters of the tests behave as a cluster does: jobs run, end and fail, nodes are lost, and nothing remains."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

from engine.home import ROOT
from tests.cluster.namespaces import NodeNamespaces
from tests.cluster.slurm import SlurmError, SlurmLab, wait_for_job
from tests.waiting import wait_until

pytestmark = pytest.mark.cluster

LISTEN = "import socket; s = socket.create_server(('', 7070)); print('ready', flush=True); s.accept()"
CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], 7070), timeout=3)"
NOBODY = 65534
AS_NOBODY = f"""
import os, sys
from pathlib import Path
from tests.cluster.slurm import SlurmLab

os.setgroups([])
os.setgid({NOBODY})
os.setuid({NOBODY})
with SlurmLab(Path(sys.argv[1])) as lab:
    print("\\n".join(sorted(lab.run("srun", "-N2", "printenv", "SLURMD_NODENAME").split())))
assert not list(lab.processes())
"""


def of_this_cluster(lab: SlurmLab) -> list[str]:
    """Return the command lines of all processes that have to do with the cluster's folder."""
    found = []
    for process in psutil.process_iter():
        try:
            near = process.environ().get("SLURM_CONF") == lab.environment["SLURM_CONF"]
            near = near or any(Path(each.path).is_relative_to(lab.folder) for each in process.open_files())
            near = near or any(str(lab.folder) in word for word in process.cmdline())
        except psutil.Error:
            continue
        if near and process.pid != os.getpid():
            found.append(" ".join(process.cmdline()))
    return found


def running(lab: SlurmLab) -> str:
    """Submit a job that lasts for minutes; return it once its steps run on all its nodes."""
    job = lab.submit("srun sleep 600", "-N2")
    wait_for_job(lab, job, "RUNNING")
    wait_until(lambda: all(lab.steps(node) for node in lab.nodes), "the steps of the job run")
    return job


def lose(lab: SlurmLab, job: str) -> None:
    """Wait until n2 is down and the job has failed for that."""
    wait_until(lambda: lab.states()["n2"].startswith("down"), "n2 is down")
    assert wait_for_job(lab, job) == "NODE_FAIL"
    wait_until(lambda: lab.states()["n1"] == "idle", "n1 is idle")


def test_a_cluster_starts_with_idle_nodes(slurm: SlurmLab) -> None:
    assert slurm.nodes == ["n1", "n2"]
    assert slurm.states() == {"n1": "idle", "n2": "idle"}
    assert list(slurm.pids) == ["munged", "slurmctld", "n1", "n2"]
    assert all(map(psutil.pid_exists, slurm.pids.values()))


def test_a_command_that_fails_raises_what_it_wrote(slurm: SlurmLab) -> None:
    with pytest.raises(SlurmError, match="invalid partition"):
        slurm.submit("true", "--partition=none")


def test_a_job_runs_on_both_nodes(slurm: SlurmLab) -> None:
    assert sorted(slurm.run("srun", "-N2", "printenv", "SLURMD_NODENAME").split()) == ["n1", "n2"]
    job = slurm.submit("srun printenv SLURMD_NODENAME", "-N2")
    assert wait_for_job(slurm, job) == "COMPLETED"
    assert sorted(slurm.output(job).split()) == ["n1", "n2"]


def test_a_job_that_exits_with_an_error_fails(slurm: SlurmLab) -> None:
    assert wait_for_job(slurm, slurm.submit("exit 3")) == "FAILED"


def test_a_cancelled_job_leaves_no_step(slurm: SlurmLab) -> None:
    job = running(slurm)
    slurm.run("scancel", job)
    assert wait_for_job(slurm, job) == "CANCELLED"
    wait_until(lambda: not any(map(slurm.steps, slurm.nodes)), "no step is left")


def test_jobs_are_cancelled_between_tests(slurm: SlurmLab) -> None:
    ignoring = slurm.submit("trap '' TERM; sleep 600", "-N1")
    waiting = slurm.submit("true", "-N2", "--exclusive")
    wait_for_job(slurm, ignoring, "RUNNING")
    slurm.restore()
    assert {slurm.jobs()[job] for job in (ignoring, waiting)} == {"CANCELLED"}
    assert slurm.states() == {"n1": "idle", "n2": "idle"}


def test_a_killed_slurmd_takes_its_node_down_and_comes_back(slurm: SlurmLab) -> None:
    job = running(slurm)
    slurm.kill("n2")
    assert "n2" not in slurm.pids and slurm.steps("n2")
    lose(slurm, job)
    slurm.restart("n2")
    slurm.wait_for_nodes()
    assert wait_for_job(slurm, slurm.submit("srun true", "-N2")) == "COMPLETED"


def test_a_restarted_controller_knows_its_jobs(slurm: SlurmLab) -> None:
    job = running(slurm)
    slurm.kill("slurmctld", signal.SIGTERM)
    with pytest.raises(SlurmError, match="Unable to contact slurm controller"):
        slurm.jobs()
    slurm.restart("slurmctld")
    assert slurm.jobs()[job] == "RUNNING"


@pytest.mark.parametrize("killed", [(), ("n2",), ("slurmctld", "n1"), ("munged",)], ids=" ".join)
def test_nothing_is_left_of_a_cluster(slurm_installed: None, killed: tuple[str, ...], tmp_path: Path) -> None:
    with SlurmLab(tmp_path / "lab") as lab:
        running(lab)
        assert len(of_this_cluster(lab)) >= 9
        for name in killed:
            lab.kill(name)
    assert not of_this_cluster(lab)
    assert not lab.pids


def test_clusters_run_side_by_side(slurm: SlurmLab, tmp_path: Path) -> None:
    with SlurmLab(tmp_path / "other", nodes=1) as other:
        jobs = [(lab, lab.submit("printenv SLURM_CONF")) for lab in (slurm, other)]
        for lab, job in jobs:
            assert wait_for_job(lab, job) == "COMPLETED"
            assert lab.output(job).strip() == lab.environment["SLURM_CONF"]
    assert slurm.states() == {"n1": "idle", "n2": "idle"}


@pytest.mark.skipif(os.geteuid() != 0, reason="All tests run as an ordinary user already.")
def test_an_ordinary_user_starts_a_cluster(slurm_installed: None) -> None:
    with tempfile.TemporaryDirectory() as folder:  # the folders of pytest are closed to other users
        os.chown(folder, NOBODY, NOBODY)
        command = [sys.executable, "-c", AS_NOBODY, folder]
        done = subprocess.run(command, cwd=folder, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True)
        assert (done.returncode, done.stdout.split()) == (0, [b"n1", b"n2"]), done.stderr.decode()
        assert {path.stat().st_uid for path in Path(folder).rglob("*")} == {NOBODY}


def reach(namespaces: NodeNamespaces, node: str, address: str) -> bool:
    """Return whether a node can connect to port 7070 of an address."""
    done = subprocess.run([*namespaces.enter(node), sys.executable, "-c", CONNECT, address], capture_output=True)
    return done.returncode == 0


def test_a_cut_node_is_reached_by_none(namespaces: NodeNamespaces) -> None:
    def reached(source: str, target: str) -> bool:
        command = [*namespaces.enter(target), sys.executable, "-c", LISTEN]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as listener:
            assert listener.stdout and listener.stdout.readline() == b"ready\n"
            try:
                return reach(namespaces, source, namespaces.addresses[target])
            finally:
                listener.kill()

    assert reached("n1", "n2") and reached("n2", "n1")
    namespaces.cut("n2")
    assert not reached("n1", "n2") and not reached("n2", "n1")
    namespaces.heal("n2")
    assert reached("n1", "n2")


def test_hosts_of_separate_nodes_have_their_names(separate_nodes: SlurmLab) -> None:
    before = os.uname().nodename
    job = separate_nodes.submit("srun hostname", "-N2")
    assert wait_for_job(separate_nodes, job) == "COMPLETED"
    assert sorted(separate_nodes.output(job).split()) == ["n1", "n2"]
    assert os.uname().nodename == before


def test_a_cut_node_goes_down_and_comes_back(separate_nodes: SlurmLab, namespaces: NodeNamespaces) -> None:
    job = running(separate_nodes)
    namespaces.cut("n2")
    lose(separate_nodes, job)
    assert separate_nodes.steps("n2")
    namespaces.heal("n2")
    wait_until(lambda: not separate_nodes.steps("n2"), "the steps of the lost node end")
    separate_nodes.wait_for_nodes()
    assert wait_for_job(separate_nodes, separate_nodes.submit("srun true", "-N2")) == "COMPLETED"


def test_nothing_is_left_of_namespaces(separate_nodes: SlurmLab, namespaces: NodeNamespaces) -> None:
    running(separate_nodes)
    bridge = namespaces._bridge
    namespaces.cut("n2")
    separate_nodes.stop()
    assert not of_this_cluster(separate_nodes)
    namespaces.__exit__(None, None, None)
    assert not [path for path in Path("/sys/class/net").iterdir() if path.name.startswith(bridge)]
    assert not [path for path in Path("/run/netns").iterdir() if path.name.startswith(bridge)]
