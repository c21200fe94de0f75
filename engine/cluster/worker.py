"""The worker of a job: executes one run on a node of a cluster, without the store.

Everything it reports goes to the job's file of records.
"""

import logging
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from pathlib import Path

import psutil

from engine import __version__
from engine.errors import NotThere, RunFailed
from engine.home import DATA, ROOT, Home
from engine.runtime.command.run import CommandExecution
from engine.runtime.nodes.agent import NodeAgent, connect
from engine.runtime.nodes.node import Node
from engine.runtime.rank import fork_server
from engine.runtime.rank.rank import RunContext
from engine.runtime.transport.rendezvous import meeting_point
from engine.runtime.usage import Disturbance
from engine.runtime.worker.environment import environment
from engine.runtime.worker.job_folder import JobFolder, JobSpec, LinkAddress
from engine.runtime.worker.records import RecordFile
from engine.runtime.worker.session import Execution, close_up_logs, write_own_log
from engine.runtime.worker.sink import StopSwitch, retry_while_busy
from engine.runtime.worker.worker import MethodExecution, NodeSetting, warm_up
from engine.script.command import Command
from engine.store.records import Status
from engine.system.checkpoint_state import RESUMED
from engine.system.machine import machine

log = logging.getLogger(__name__)

LOOK_S = 1.0
"""Interval of looks for a request to stop in the job's folder."""
LOST = "The process that started the worker on its node (slurmstepd) is gone, and with it the allocation."


class JobSwitch(StopSwitch):
    """A stop request: SIGTERM, a file of the job's folder, or the end of the process that Slurm watches the worker by.

    Without that process the worker would continue outside of any allocation.
    """

    def __init__(self, folder: JobFolder) -> None:
        super().__init__()
        self._folder = folder
        self._parent = os.getppid()
        self._looked_at = 0.0
        self.lost = ""
        """Why the job has lost its allocation; empty if it has not."""

    def is_requested(self) -> bool:
        """Return whether to stop."""
        now = time.monotonic()
        if now - self._looked_at >= LOOK_S:
            self._looked_at = now
            if not self.requested and os.getppid() != self._parent:
                self.lost = LOST
            self.requested = self.requested or bool(self.lost) or self._folder.is_to_stop()
        return super().is_requested()


def execute_job(path: str) -> None:
    """Execute the run whose job folder this is, and record how it ended."""
    began = time.monotonic()
    folder = JobFolder(Path(path))
    switch = JobSwitch(folder)
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)  # submitit's signal: a run is resumed by a job of its own
    spec = folder.spec()
    os.environ["PARALLAB_HOME"] = path
    records = RecordFile(folder)
    write_own_log(folder.run / "logs" / "worker.log")
    cores = machine().core_ids
    gpus = tuple(filter(None, os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")))
    numbers = [int(one) for one in gpus if one.isdecimal()]
    records.begin(surroundings(spec), cores, numbers, os.getpid())
    records.log_file("worker", "logs/worker.log")
    if spec.data_folder:
        os.environ[DATA] = spec.data_folder
    disturbance = Disturbance(max(1, len(cores)), cores)
    execution: Execution
    if spec.command is not None:
        command, values = Command.of(spec.command), spec.config
        known = (command, values, spec.run_id, folder.run, gpus, records, switch, disturbance, began)
        further = [Path(spec.home)] if spec.home else []
        execution = JobCommand(*known, spec.end_when_hung, Home(folder.path.parent), further)
    else:
        execution = _of_method(spec, folder, gpus, records, switch, disturbance, began)
    stopped = partial(_stopped, switch)
    status, cause, error = execution.outcome(stopped)
    if status == "failed" and switch.requested:
        status, cause, error = stopped()
    execution.afterwards()
    close_up_logs(folder.run / "logs")
    assert status in ("finished", "failed", "cancelled", "lost"), status
    final = status
    retry_while_busy(lambda: records.end(final, cause, error, execution.execution_time_s))
    sys.stdout.flush()
    os._exit(0)  # the run's end is recorded: submitit's result and the exit handlers of libraries add nothing


class JobCommand(CommandExecution):
    """A command on a node; its processes see no folder of another job."""

    def run(self) -> None:
        """Run the command; raises what that does, with a cure of clusters for what the node lacks."""
        try:
            super().run()
        except NotThere as error:
            raise NotThere(
                f"On node {slurm_name()}: {error} Nodes have to see a command's folder and its Python under the same "
                f"path as the console does: put both on a file system that is shared, such as below "
                f"{self.lab.path.parent}."
            ) from error


def _of_method(
    spec: JobSpec,
    folder: JobFolder,
    gpus: tuple[str, ...],
    records: RecordFile,
    switch: JobSwitch,
    disturbance: Disturbance,
    began: float,
) -> MethodExecution:
    """Return the execution of an experiment's method."""
    warm_up()
    return MethodExecution(
        spec.experiment,
        spec.config,
        Home(folder.path),
        records,
        switch,
        disturbance,
        lambda config: RunContext.of(
            config,
            folder.run,
            gpus,
            began=began,
            resume_from=folder.run / RESUMED if spec.resumes else None,
            time_before_s=spec.time_before_s,
            uid=spec.run_uid,
            host_network_refused=spec.host_network_refused,
            end_when_hung=spec.end_when_hung,
        ),
        partial(further_nodes, folder, spec.nodes - 1, spec.interface) if spec.nodes > 1 else None,
        began,
    )


def surroundings(spec: JobSpec) -> dict[str, object]:
    """Return the environment of the run, with what Slurm says of the job."""
    told = {name: os.environ.get(f"SLURM_{name.upper()}", "") for name in ("job_id", "job_nodelist", "job_partition")}
    if spec.version != __version__:
        log.warning("the runner has version %s, this node has version %s", spec.version, __version__)
    return environment() | {"cluster": spec.cluster, "slurm": told}


def _stopped(switch: JobSwitch) -> tuple[Status, str, str]:
    if switch.lost:
        return "lost", switch.lost, ""
    return "cancelled", "The job was cancelled or reached its time limit on the cluster.", ""


# ---- The further nodes of a job: agents, started by srun, that connect with the worker -----------------------------
# The worker's address and a key for the link are in a file of the job's folder that only this user can read.

CONNECT_S = 120.0
"""Time for all agents to start and connect."""
HANDSHAKE_S = 10.0
"""Time for a program that has connected to prove that it is an agent; many may try at once."""
MOST_HANDSHAKES = 64
"""At more handshakes at once the oldest one ends."""
LEAVE_S = 10.0


@contextmanager
def further_nodes(folder: JobFolder, count: int, interface: str) -> Iterator[NodeSetting]:
    """Connect with the agents of `count` further nodes for the block; raises RunFailed if one does not come in time."""
    host, interface_here = own_address(slurm_address(_other_node()), interface)
    key = secrets.token_bytes(32)
    with socket.create_server((host, 0), backlog=MOST_HANDSHAKES) as listener, meeting_point(host) as meeting:
        folder.tell_link(LinkAddress(host=host, port=listener.getsockname()[1], key=key.hex()))
        agents = _start_agents(folder, count)
        try:
            nodes = tuple(_connected(listener, key, agents, count))
            log.info("connected with %s", ", ".join(node.name for node in nodes))
            yield NodeSetting(nodes, meeting, interface_here)
            for node in nodes:
                node.close()
            agents.wait(timeout=LEAVE_S)
        except subprocess.TimeoutExpired:
            log.warning("agents did not leave within %.0f s", LEAVE_S)
        finally:
            agents.kill()


def serve(path: str) -> None:
    """Serve the worker of a job as the agent of this node."""
    folder = JobFolder(Path(path))
    link = _told(folder.link)
    _, interface = own_address(link.host, folder.spec().interface)
    fork_server.wait_until_loaded()  # from here on, ranks start in milliseconds
    connection = connect(link.host, link.port, bytes.fromhex(link.key))
    connection.send(slurm_name())
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
    command = (sys.executable, "-m", "engine.cluster.job", str(folder.path))
    with (folder.run / "logs" / "agents.log").open("ab") as output:
        return subprocess.Popen(
            ["srun", *tasks, *cores, *command],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )


@dataclass
class _Handshake:
    """A connection whose other end has to prove, in a thread of its own, that it knows the key."""

    door: socket.socket
    key: bytes
    begun: float = field(default_factory=time.monotonic)
    node: Node | None = None

    def __post_init__(self) -> None:
        self.link = Connection(os.dup(self.door.fileno()))
        self.thread = threading.Thread(target=self._greet, daemon=True)
        self.thread.start()

    def end(self) -> None:
        """Wake the thread, which then ends."""
        with suppress(OSError):
            self.door.shutdown(socket.SHUT_RDWR)

    def _greet(self) -> None:
        try:
            deliver_challenge(self.link, self.key)
            answer_challenge(self.link, self.key)
            self.node = Node(self.link.recv(), self.link)
        except (AuthenticationError, EOFError, OSError) as error:
            log.warning("refused a connection that is not an agent's: %s", error)
            self.link.close()


def _connected(listener: socket.socket, key: bytes, agents: subprocess.Popen[bytes], count: int) -> list[Node]:
    """Return the nodes whose agents have connected; nobody who connects keeps others waiting."""
    found: list[Node] = []
    going: list[_Handshake] = []
    listener.settimeout(0.1)
    deadline = time.monotonic() + CONNECT_S
    while len(found) < count and time.monotonic() < deadline and agents.poll() is None:
        with suppress(TimeoutError):
            door = listener.accept()[0]
            door.settimeout(None)
            going.append(_Handshake(door, key))
        for each in [each for each in going if not each.thread.is_alive()]:
            going.remove(each)
            each.door.close()
            found += [each.node] if each.node else []
        for at, each in enumerate(going):
            if time.monotonic() - each.begun > HANDSHAKE_S or at < len(going) - MOST_HANDSHAKES:
                each.end()
    for each in going:
        each.end()
        each.door.close()
    if len(found) < count:
        code = agents.poll()
        how = f"within {CONNECT_S:.0f} s" if code is None else f"before srun ended with exit code {code}"
        raise RunFailed(f"{len(found)} of {count} further nodes connected {how}. See the log agents.")
    return found


# ---- Addresses and interfaces of nodes -----------------------------------------------------------------------------

PORT_OF_NOTHING = 9
"""Connecting a UDP socket sends nothing: it only finds the route."""


def own_address(other: str, interface: str = "") -> tuple[str, str]:
    """Return this node's address towards another one, and its interface: the given one, or that of the route.

    Raises RunFailed.
    """
    found = psutil.net_if_addrs()
    if interface:
        addresses = [one.address for one in found.get(interface, ()) if one.family == socket.AF_INET]
        if not addresses:
            raise RunFailed(
                f"Node {socket.gethostname()} has no interface '{interface}' with an IPv4 address; it has "
                f"{', '.join(sorted(found))}. Correct interface in clusters.toml."
            )
        return addresses[0], interface
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        try:
            any_socket.connect((other, PORT_OF_NOTHING))
        except OSError as error:
            raise RunFailed(f"Node {socket.gethostname()} has no route to {other}: {error.strerror}.") from error
        address = any_socket.getsockname()[0]
    name = next((name for name, all_ in found.items() for one in all_ if one.address == address), "")
    if not name:
        raise RunFailed(f"No interface of node {socket.gethostname()} has the address {address}.")
    return address, name


def slurm_name() -> str:
    """Return this node's name as Slurm knows it."""
    return os.environ.get("SLURMD_NODENAME") or os.uname().nodename


def slurm_address(node: str) -> str:
    """Return a node's address as Slurm knows it; raises RunFailed."""
    try:
        done = subprocess.run(
            ["scontrol", "show", "node", node, "--oneliner"], capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise RunFailed(f"scontrol does not say the address of node {node}: {error}") from error
    words = dict(word.split("=", 1) for word in done.stdout.split() if "=" in word)
    try:
        return socket.gethostbyname(words["NodeAddr"])
    except (KeyError, OSError) as error:
        raise RunFailed(f"The address of node {node} is unknown: {words.get('NodeAddr', 'no NodeAddr')}.") from error
