"""Messages between the worker and the agents of further nodes. Times are the sender's monotonic clock."""

import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psutil

from engine.errors import RunFailed
from engine.trace.health import ProcessState


@dataclass(frozen=True)
class ClockPing:
    """The worker asks for the agent's time; also tells that the worker lives."""

    sent: float


@dataclass(frozen=True)
class ClockPong:
    """The answer to a ping."""

    sent: float
    here: float


@dataclass(frozen=True)
class SharedArguments:
    """What all ranks of a node get: the function and its arguments, pickled by `shared_values.dumps`."""

    content: bytes


@dataclass(frozen=True)
class StartRank:
    """Start a rank; `plan` is pickled by `shared_values.dumps`."""

    index: int
    plan: bytes


@dataclass(frozen=True)
class WorkerMessage:
    """A message of the worker to a rank."""

    index: int
    message: Any


@dataclass(frozen=True)
class StackQuestion:
    """Ask a rank for its stacks."""

    index: int


@dataclass(frozen=True)
class EndRanks:
    """End the ranks that still run: terminate, then kill after `grace_s`."""

    grace_s: float


@dataclass(frozen=True)
class AgentLeave:
    """The agent's work is done."""


@dataclass(frozen=True)
class RankStarted:
    """A rank's process runs."""

    index: int
    pid: int


@dataclass(frozen=True)
class RankMessage:
    """A message of a rank to the worker."""

    index: int
    message: Any


@dataclass(frozen=True)
class RankClosed:
    """A rank's process has ended."""

    index: int
    exit_code: int | None


@dataclass(frozen=True)
class RankRefused:
    """A rank could not be started."""

    index: int
    why: str


@dataclass(frozen=True)
class FlagChange:
    """Elements of a shared tensor that were written on the sender's node."""

    number: int
    places: Sequence[int]
    values: Sequence[int]


@dataclass(frozen=True)
class TracePart:
    """Parts of a rank's trace memory that have changed: the header, and blocks of the ring by place."""

    index: int
    header: bytes
    blocks: Mapping[int, bytes]


@dataclass(frozen=True)
class ProcessReport:
    """A rank's process as its node sees it."""

    state: ProcessState
    used_s: float
    """Seconds in which its threads have used a core."""
    waited_s: float
    """Seconds in which they have waited for one."""
    memory_mb: float | None
    cpu_percent: float | None


@dataclass(frozen=True)
class NodeReport:
    """The processes of a node's ranks, by rank."""

    processes: Mapping[int, ProcessReport]


# ---- Addresses and interfaces of nodes -----------------------------------------------------------------------------
# Torch-free.

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
