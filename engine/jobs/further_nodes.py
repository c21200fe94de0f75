"""The further nodes of a job: agents, started by srun or by hand, that connect with the worker.

The worker's address and a key for the link are in a file of the job's folder that only this user can read.
"""

import logging
import os
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import AuthenticationError
from multiprocessing.connection import Listener
from pathlib import Path

from engine.errors import RunFailed
from engine.home import ROOT
from engine.jobs.job_folder import JobFolder, LinkAddress
from engine.runtime.nodes.addresses import own_address, slurm_address
from engine.runtime.nodes.agent import NodeAgent, connect
from engine.runtime.nodes.node import Node
from engine.runtime.rank import fork_server
from engine.runtime.transport.rendezvous import meeting_point
from engine.runtime.worker.execution import NodeSetting

log = logging.getLogger(__name__)

CONNECT_S = 120.0
"""Time for all agents to start and connect."""
LEAVE_S = 10.0
MASTER = "MASTER_ADDR"
"""torchrun's variable with the first host's address."""
Agents = subprocess.Popen[bytes] | None
"""The command that runs the agents; None if they are started by hand."""


@contextmanager
def further_nodes(folder: JobFolder, count: int, interface: str) -> Iterator[NodeSetting]:
    """Connect with the agents of `count` further nodes for the block; raises RunFailed if one does not come in time."""
    by_hand = "SLURM_JOB_ID" not in os.environ
    other = os.environ[MASTER] if by_hand else slurm_address(_other_node())
    host, interface_here = own_address(other, interface)
    key = secrets.token_bytes(32)
    with Listener((host, 0), backlog=count, authkey=key) as listener, meeting_point(host) as meeting:
        folder.tell_link(LinkAddress(host=host, port=listener.address[1], key=key.hex()))
        agents = None if by_hand else _start_agents(folder, count)
        try:
            nodes = tuple(_connected(listener, agents, count))
            log.info("connected with %s", ", ".join(node.name for node in nodes))
            yield NodeSetting(nodes, meeting, interface_here)
            for node in nodes:
                node.close()
            if agents:
                agents.wait(timeout=LEAVE_S)
        except subprocess.TimeoutExpired:
            log.warning("agents did not leave within %.0f s", LEAVE_S)
        finally:
            if agents:
                agents.kill()


def serve(path: str) -> None:
    """Serve the worker of a job as the agent of this node."""
    folder = JobFolder(Path(path))
    link = _told(folder.link)
    _, interface = own_address(link.host, folder.spec().interface)
    fork_server.wait_until_loaded()  # from here on, ranks start in milliseconds
    connection = connect(link.host, link.port, bytes.fromhex(link.key))
    connection.send(os.environ.get("SLURMD_NODENAME") or os.uname().nodename)
    NodeAgent(connection, interface).serve()
    os._exit(0)


def _told(read: Callable[[], LinkAddress | None]) -> LinkAddress:
    """Return the worker's address once it is there: a file system of several nodes may show a new file late."""
    deadline = time.monotonic() + CONNECT_S
    while (found := read()) is None:
        if time.monotonic() > deadline:
            raise RunFailed(f"The worker on the first node did not report its address within {CONNECT_S:.0f} s.")
        time.sleep(0.2)
    return found


def _other_node() -> str:
    """Return the name of another node of this job."""
    command = ["scontrol", "show", "hostnames", os.environ["SLURM_JOB_NODELIST"]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    return next(name for name in done.stdout.split() if name != os.environ.get("SLURMD_NODENAME"))


def _start_agents(folder: JobFolder, count: int) -> subprocess.Popen[bytes]:
    tasks = ("--relative=1", f"--nodes={count}", f"--ntasks={count}", "--ntasks-per-node=1", "--kill-on-bad-exit=1")
    cores = ("--export=ALL", f"--cpus-per-task={os.environ.get('SLURM_CPUS_PER_TASK', '1')}")
    command = (sys.executable, "-m", "engine.jobs.job", str(folder.path))
    with (folder.run / "logs" / "agents.log").open("ab") as output:
        return subprocess.Popen(
            ["srun", *tasks, *cores, *command],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )


def _connected(listener: Listener, agents: Agents, count: int) -> list[Node]:
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
    deadline = time.monotonic() + CONNECT_S
    while thread.is_alive() and time.monotonic() < deadline and (agents is None or agents.poll() is None):
        thread.join(0.1)
    if len(found) < count:
        code = agents.poll() if agents else None
        how = f"within {CONNECT_S:.0f} s" if code is None else f"before srun ended with exit code {code}"
        raise RunFailed(
            f"{len(found)} of {count} further nodes connected {how}. See the log agents. {' '.join(failure)}".strip()
        )
    return found
