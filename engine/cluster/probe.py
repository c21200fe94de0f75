"""The doctor's job: each node writes what it sees into the job's folder. Torch-free."""

import hashlib
import os
import platform
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil
from pydantic import BaseModel, ConfigDict

from engine import __version__
from engine.home import DATA, ROOT, Home
from engine.runtime.worker.job_folder import replace_file
from engine.system.machine import machine
from engine.system.network_isolation import Level, machine_level

QUESTION = "question.json"
LISTENS = "listens.json"
POLL_S = 0.05
PING_S = 60.0
"""Time that a node waits for the answer of the console's machine."""
CONNECT_S = 15.0
"""Time for a connection between two nodes."""


class ProbeQuestion(BaseModel):
    """What the nodes of the doctor's job have to know."""

    model_config = ConfigDict(frozen=True)

    interface: str = ""
    data_folder: str = ""
    nodes: int = 1


class CodeVersions(BaseModel):
    """The versions that must be the same on a node and here."""

    model_config = ConfigDict(frozen=True)

    version: str
    code: str
    """Hash of all modules of the engine."""
    python: str
    torch: str


class Route(BaseModel):
    """The way from one node of a job to another."""

    model_config = ConfigDict(frozen=True)

    interface: str = ""
    address: str = ""
    error: str = ""


class NodeAnswer(BaseModel):
    """What one node of the doctor's job sees."""

    model_config = ConfigDict(frozen=True)

    node: str
    """Slurm's name of the node."""
    host: str
    code: CodeVersions
    cores: int
    gpus: list[str] = []
    visible_gpus: str | None = None
    """CUDA_VISIBLE_DEVICES."""
    interfaces: dict[str, list[str]] = {}
    """Addresses by interface."""
    route: Route | None = None
    """The way to the other node; None without another."""
    port_error: str | None = None
    """Why no connection to the first node's port was possible; empty if it was, None if not tried."""
    data_sets: list[str] | None = None
    """Complete data sets; None if the folder does not exist."""
    network: Level = "host"
    network_why: str = ""


def probe_node(path: str) -> None:
    """Examine this node; the doctor's job calls it on each of its nodes."""
    folder, rank = Path(path), int(os.environ.get("SLURM_PROCID", "0"))
    os.umask(0o077)
    question = ProbeQuestion.model_validate_json((folder / QUESTION).read_text())
    replace_file(folder / f"hello-{rank}", "")
    if wait_for(folder / f"ping-{rank}", PING_S):
        replace_file(folder / f"pong-{rank}", repr(time.time()))
    replace_file(folder / f"answer-{rank}.json", _answer(folder, rank, question).model_dump_json())


def _answer(folder: Path, rank: int, question: ProbeQuestion) -> NodeAnswer:
    route, port_error = None, None
    if question.nodes > 1:
        route = _route(question.interface, _other_node(rank))
        if rank == 0:
            _listen(folder, route)
        else:
            port_error = _connect(folder)
    level, why = machine_level()
    return NodeAnswer(
        node=os.environ.get("SLURMD_NODENAME") or socket.gethostname(),
        host=socket.gethostname(),
        code=code_versions(),
        cores=machine().cores,
        gpus=[gpu.name for gpu in machine().gpus],
        visible_gpus=os.environ.get("CUDA_VISIBLE_DEVICES"),
        interfaces=_interfaces(),
        route=route,
        port_error=port_error,
        data_sets=_data_sets(question.data_folder),
        network=level,
        network_why=why,
    )


def code_versions() -> CodeVersions:
    """Return the versions of this process's code."""
    found = hashlib.sha256()
    for path in sorted((ROOT / "engine").rglob("*.py")):
        found.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    try:
        torch = version("torch")
    except PackageNotFoundError:
        torch = ""
    return CodeVersions(version=__version__, code=found.hexdigest()[:12], python=platform.python_version(), torch=torch)


def appears(path: Path) -> bool:
    """Return whether a file exists, by its folder's list: a lookup by name can be answered from a cache."""
    return path in path.parent.iterdir()


def wait_for(path: Path, seconds: float) -> bool:
    """Wait until a file appears; False if it does not."""
    end = time.monotonic() + seconds
    while not (there := appears(path)) and time.monotonic() < end:
        time.sleep(POLL_S)
    return there


def _data_sets(path: str) -> list[str] | None:
    from engine.data.catalogue import DATA_SETS, at_hand

    if not Path(path).is_dir():
        return None
    os.environ[DATA] = path
    return [name for name, found in DATA_SETS.items() if found.files and at_hand(name, Home(Path(path)))]


def _interfaces() -> dict[str, list[str]]:
    families = (socket.AF_INET, socket.AF_INET6)
    return {
        name: [one.address for one in found if one.family in families and not one.address.startswith("fe80")]
        for name, found in psutil.net_if_addrs().items()
    }


def _other_node(rank: int) -> str:
    """Return the address of the job's first node, and for the first that of the second."""
    listed = _scontrol("show", "hostnames", os.environ.get("SLURM_JOB_NODELIST", "")).split()
    name = listed[0 if rank else 1] if len(listed) > 1 else ""
    known = dict(word.split("=", 1) for word in _scontrol("show", "node", name, "-o").split() if "=" in word)
    return known.get("NodeAddr", name)


def _scontrol(*words: str) -> str:
    with suppress(OSError, subprocess.TimeoutExpired):
        return subprocess.run(("scontrol", *words), capture_output=True, text=True, timeout=10).stdout
    return ""


def _route(configured: str, other: str) -> Route:
    """Return the interface between nodes with its address: the configured one, or the one that leads to the other."""
    interfaces = _interfaces()
    if configured:
        if address := next(iter(interfaces.get(configured, [])), ""):
            return Route(interface=configured, address=address)
        return Route(error=f"there is no interface {configured} with an address")
    try:
        family, _, _, _, place = socket.getaddrinfo(other, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(place)  # sends nothing: it asks the kernel for the way
            address = str(probe.getsockname()[0])
    except OSError as error:
        return Route(error=f"no way to {other or 'the other node'}: {error}")
    return Route(interface=interface_of(address, interfaces), address=address)


def interface_of(address: str, interfaces: Mapping[str, Sequence[str]]) -> str:
    """Return the interface that has an address, the first one for loopback."""
    fits = [name for name, found in interfaces.items() if address in found]
    if not fits and address.startswith("127."):
        fits = [name for name, found in interfaces.items() if any(one.startswith("127.") for one in found)]
    return fits[0] if fits else ""


def _listen(folder: Path, route: Route) -> None:
    """Accept a connection on a free port of the route's address, which the other node finds in a file."""
    if route.error:
        replace_file(folder / LISTENS, "")
        return
    family = socket.AF_INET6 if ":" in route.address else socket.AF_INET
    with socket.create_server((route.address, 0), family=family) as server:
        replace_file(folder / LISTENS, f"{route.address} {server.getsockname()[1]}")
        server.settimeout(CONNECT_S)
        with suppress(OSError), server.accept()[0] as connection:
            connection.sendall(b"parallab")


def _connect(folder: Path) -> str:
    """Return why no connection to the first node is possible; empty if it is."""
    if not wait_for(folder / LISTENS, CONNECT_S) or not (place := (folder / LISTENS).read_text().split()):
        return "the first node does not listen"
    try:
        with socket.create_connection((place[0], int(place[1])), timeout=CONNECT_S) as connection:
            connection.settimeout(CONNECT_S)
            answer = connection.recv(8)
    except OSError as error:
        return f"{place[0]} port {place[1]}: {error.strerror or error}"
    return "" if answer == b"parallab" else f"{place[0]} port {place[1]}: another program answers"
