"""The further nodes of a job: start an agent on each by srun, and connect it with the worker."""

import logging
import os
import secrets
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import AuthenticationError
from multiprocessing.connection import Listener
from pathlib import Path
from typing import Any

from engine.errors import RunFailed
from engine.home import ROOT
from engine.jobs.job_folder import JobFolder
from engine.runtime.nodes.addresses import own_address, slurm_address
from engine.runtime.nodes.agent import NodeAgent, connect
from engine.runtime.nodes.node import Node
from engine.runtime.rank import fork_server
from engine.runtime.transport.rendezvous import meeting_point
from engine.runtime.worker.execution import NodeSetting

log = logging.getLogger(__name__)

KEY = "link.key"
CONNECT_S = 120.0
"""Time for all agents to start and connect."""


@contextmanager
def further_nodes(folder: JobFolder, count: int, interface: str) -> Iterator[NodeSetting]:
    """Start the agents of `count` further nodes for the block; raises RunFailed if one does not connect in time."""
    here = os.environ.get("SLURMD_NODENAME", "")
    others = [name for name in _job_nodes() if name != here]
    host, interface_here = own_address(slurm_address(others[0]), interface)
    key = secrets.token_bytes(32)
    (folder.path / KEY).write_bytes(key)
    with Listener((host, 0), backlog=count, authkey=key) as listener, meeting_point(host) as meeting:
        agents = _start_agents(folder, count, listener.address, interface)
        try:
            nodes = tuple(_connected(listener, agents, count))
            log.info("connected with %d further nodes", len(nodes))
            yield NodeSetting(nodes, meeting, interface_here)
            for node in nodes:
                node.close()
            agents.wait(timeout=10)
        except subprocess.TimeoutExpired:
            log.warning("agents did not leave")
        finally:
            agents.kill()


def serve(path: str, host: str, port: int, interface: str) -> None:
    """Serve the worker at that address, as the agent of this node."""
    key = (JobFolder(Path(path)).path / KEY).read_bytes()
    _, own_interface = own_address(host, interface)
    fork_server.wait_until_loaded()  # from here on, ranks start in milliseconds
    link = connect(host, port, key)
    link.send(os.environ.get("SLURMD_NODENAME", ""))
    NodeAgent(link, own_interface).serve()
    os._exit(0)


def _job_nodes() -> list[str]:
    done = subprocess.run(
        ["scontrol", "show", "hostnames", os.environ["SLURM_JOB_NODELIST"]],
        capture_output=True,
        text=True,
        timeout=20,
        check=True,
    )
    return done.stdout.split()


def _start_agents(folder: JobFolder, count: int, address: Any, interface: str) -> subprocess.Popen[bytes]:
    host, port = address
    tasks = (
        "--relative=1",
        f"--nodes={count}",
        f"--ntasks={count}",
        "--ntasks-per-node=1",
        "--kill-on-bad-exit=1",
        "--export=ALL",
    )
    cores = f"--cpus-per-task={os.environ.get('SLURM_CPUS_PER_TASK', '1')}"
    command = (sys.executable, "-m", "engine.jobs.job", str(folder.path), host, str(port), interface)
    with (folder.run / "logs" / "agents.log").open("ab") as output:
        return subprocess.Popen(
            ["srun", *tasks, cores, *command],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )


def _connected(listener: Listener, agents: "subprocess.Popen[bytes]", count: int) -> list[Node]:
    """Return the nodes whose agents have connected."""
    found: list[Node] = []
    failure: list[str] = []

    def accept() -> None:
        while len(found) < count:
            try:
                link = listener.accept()
                found.append(Node(link.recv(), link))
            except (AuthenticationError, EOFError, ConnectionError) as error:
                log.warning("refused a connection that is not an agent's: %s", error)
            except OSError as error:
                failure.append(str(error))
                return

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    waited = 0.0
    while thread.is_alive() and waited < CONNECT_S and agents.poll() is None:
        thread.join(0.1)
        waited += 0.1
    if len(found) < count:
        how = f"ended with exit code {agents.returncode}" if agents.poll() is not None else f"{CONNECT_S:.0f} s passed"
        raise RunFailed(
            f"Only {len(found)} of {count} further nodes connected before their agents' srun {how}. "
            f"See the log agents. {' '.join(failure)}"
        )
    return found
