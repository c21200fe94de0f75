"""The network of a run's ranks, kept apart from the machine's. Torch-free and light: it is the first thing that the
fork server imports.

TensorPipe and gloo listen on loopback and authenticate nobody: TensorPipe calls whatever function it is sent. Any user
of the machine reaches loopback, so ranks live in a network namespace of their own, whose loopback nobody else can
reach. A namespace also has its own abstract Unix sockets.
"""

import ctypes
import fcntl
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any, Literal, get_args

from engine.errors import RunFailed

Level = Literal["namespace", "container", "host"]
"""What ranks listen on: a network namespace of their own, a container's network that no other user shares, or the
network of the whole machine.
"""
LEVELS: tuple[Level, ...] = get_args(Level)
LEVEL_WORDS: dict[Level, str] = {
    "namespace": "a network namespace of their own",
    "container": "the network of this container",
    "host": "the machine's network, which every user of the machine reaches",
}
STAYED_OUTSIDE = (
    "A rank did not enter the network namespace of its run, so it may not listen. Launch the run again with "
    "start_method forkserver."
)
_NEW_USER, _NEW_NET = 0x10000000, 0x40000000  # clone(2)
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 0x1  # netdevice(7)
_FIRST_PID_NAMESPACE = 0xEFFFFFFC  # the kernel's fixed number for the machine's own
_CONNECT_S = 5.0
_PROBE_S = 60.0


@dataclass(frozen=True)
class Network:
    """What the ranks of one run listen on."""

    level: Level
    outside: int
    """The worker's network namespace (`network_id`)."""
    server_pid: int
    """The fork server, whose namespaces are the ranks'."""
    why: str = ""
    """Why ranks have no namespace of their own; empty where they have."""


@dataclass(frozen=True)
class ListenRule:
    """Where a rank may not listen; without an `outside` it may anywhere."""

    outside: int | None = None
    """The network namespace in which it may not."""
    sentence: str = ""
    """Why, and the cure."""


_rule = ListenRule()


def obey(rule: ListenRule) -> None:
    """Set the rule of this process."""
    global _rule
    _rule = rule


def check_listening() -> None:
    """Raise RunFailed where this process may not listen; called before anything does."""
    if _rule.outside is not None and network_id() in (0, _rule.outside):
        raise RunFailed(_rule.sentence)


def rule_of(network: Network, refused: str) -> ListenRule:
    """Return the rule of a run's ranks; `refused` is why they may not listen on the machine's network, empty where they
    may.
    """
    if network.level == "namespace":
        return ListenRule(network.outside, STAYED_OUTSIDE)
    return ListenRule(network.outside, refused) if network.level == "host" and refused else ListenRule()


class Sealed:
    """A call that is unpickled only when it is made, so that a spawned process can do something before it imports what
    the call needs.
    """

    def __init__(self, function: Callable[..., None], *arguments: Any) -> None:
        self._call = function, arguments

    def __reduce__(self) -> tuple[Any, ...]:
        return _Packed, (bytes(ForkingPickler.dumps(self._call)),)


class _Packed:
    def __init__(self, call: bytes) -> None:
        self._call = call

    def __call__(self) -> None:
        function, arguments = ForkingPickler.loads(self._call)
        function(*arguments)


def call_inside(pid: int, call: Callable[[], None]) -> None:
    """Join the namespaces of process `pid`, then make the call; where joining fails its rule keeps the rank from
    listening.
    """
    try:
        join(pid)
    except OSError as error:
        print(f"The network namespace of process {pid} could not be joined: {error}", file=sys.stderr)
    call()


def network_id() -> int:
    """Return what tells this process's network namespace from any other that exists now; 0 where the system
    has none.
    """
    try:
        return Path("/proc/self/ns/net").stat().st_ino
    except OSError:
        return 0


def isolate() -> str:
    """Move this process, which must have one thread, to a network namespace of its own with a working loopback.

    Return "" where that worked, else why not; then nothing of this process has changed. A forked process tries it whole
    first, since some systems let a namespace be made and refuse what makes it usable.
    """
    if not sys.platform.startswith("linux"):
        return f"{sys.platform} has no network namespaces"
    if why := _tried():
        return why
    _enter_new()
    return ""


def _tried() -> str:
    """Return why a process forked from this one could not make a namespace and talk to itself there; empty where it
    could.
    """
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        why = ""
        try:
            _enter_new()
        except BaseException as error:
            why = f"{type(error).__name__}: {error}"
        with suppress(OSError):
            os.write(theirs, (why or "ok").encode())
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours, "rb") as answers:
        answer = answers.read().decode()
    os.waitpid(pid, 0)
    return "" if answer == "ok" else answer or "the process that tried it was killed"


def _enter_new() -> None:
    """Enter a new network namespace, and a user namespace where this user may not make one otherwise;
    raises OSError.
    """
    user, group = os.geteuid(), os.getegid()
    try:
        _call("unshare", _NEW_NET)
    except PermissionError:
        _call("unshare", _NEW_USER | _NEW_NET)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    _raise_loopback()
    _talk_to_self()


def _raise_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        _, flags = struct.unpack("16sh", fcntl.ioctl(any_socket, _GET_FLAGS, struct.pack("16sh", b"lo", 0)))
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sh", b"lo", flags | _UP))


def _talk_to_self() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname(), timeout=_CONNECT_S),
    ):
        server.accept()[0].close()


def join(pid: int) -> None:
    """Move this process, which must have one thread, to the network namespace of process `pid`, and to its user
    namespace where that is another.

    Raises OSError.
    """
    for kind, flag in (("user", _NEW_USER), ("net", _NEW_NET)):
        theirs = Path(f"/proc/{pid}/ns/{kind}")
        if theirs.stat().st_ino == Path(f"/proc/self/ns/{kind}").stat().st_ino:
            continue  # the kernel refuses to enter the user namespace that one is in
        descriptor = os.open(theirs, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _call("setns", descriptor, flag)
        finally:
            os.close(descriptor)


def _call(name: str, *arguments: int) -> None:
    """Make a system call of libc by name (Python has these from 3.12 on); raises OSError."""
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def outer_level() -> Level:
    """Return what a process without a namespace of its own listens on: a container's network, or the machine's.

    A container counts where its network is not the machine's (`--network host`), and its first process runs as this
    user: a system container, whose first process is an init, may have other users.
    """
    settings = Path("/proc/sys/net/core")
    try:
        if (settings / "netdev_budget").exists() or not (settings / "somaxconn").exists():
            return "host"  # every network has the second setting, and the machine's alone the first
        apart = Path("/proc/self/ns/pid").stat().st_ino != _FIRST_PID_NAMESPACE
        return "container" if apart and Path("/proc/1").stat().st_uid == os.geteuid() else "host"
    except OSError:
        return "host"


@cache
def machine_level() -> tuple[Level, str]:
    """Return what ranks started by this user listen on, found by trying it in a process of its own, and why they have
    no namespace (or "").
    """
    from engine.home import ROOT

    command = [sys.executable, "-m", "engine.system.network_isolation"]
    try:
        answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=_PROBE_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        return outer_level(), str(error)
    if answer.returncode != 0:
        return outer_level(), (answer.stderr.strip().splitlines() or ["the process that tried it failed"])[-1]
    why = answer.stdout.strip()
    return (outer_level(), why) if why else ("namespace", "")


if __name__ == "__main__":
    print(isolate())
