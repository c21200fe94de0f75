"""Network isolation of a run's ranks. Torch-free and light, as the fork server imports it first.

TensorPipe and gloo listen on loopback without authentication, and TensorPipe executes any function sent to it. Every
user of the machine can connect to loopback, so ranks run in a separate network namespace with a private loopback. A
namespace also has its own abstract Unix sockets.
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
from pathlib import Path
from typing import Any, Literal, get_args

from engine.errors import RunFailed

Level = Literal["namespace", "container", "host", "cluster"]
"""Network of the ranks: a separate network namespace, a container's network without other users, or the machine's
network, or the network between a cluster's nodes.
"""
LEVELS: tuple[Level, ...] = get_args(Level)
LEVEL_WORDS: dict[Level, str] = {
    "namespace": "a separate network namespace",
    "container": "this container's network",
    "host": "the machine's network, open to every user of the machine",
    "cluster": "the network between the cluster's nodes, which its admin trusts",
}
STAYED_OUTSIDE = (
    "A rank is outside its run's network namespace and must not listen. Launch the run again with "
    "start_method forkserver."
)
_NEW_USER, _NEW_NET = 0x10000000, 0x40000000  # clone(2)
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 0x1  # netdevice(7)
_FIRST_PID_NAMESPACE = 0xEFFFFFFC  # fixed inode of the initial namespace
_CONNECT_S = 5.0
_PROBE_S = 60.0


@dataclass(frozen=True)
class Network:
    """The network of one run's ranks."""

    level: Level
    outside: int
    """The worker's network namespace (`network_id`)."""
    server_pid: int
    """The fork server, whose namespaces the ranks share."""
    why: str = ""
    """Why ranks have no separate namespace; empty if they have one."""


@dataclass(frozen=True)
class ListenRule:
    """Forbidden network of a rank; without `outside`, all are allowed."""

    outside: int | None = None
    """The forbidden network namespace."""
    sentence: str = ""
    """Reason and cure."""


_rule = ListenRule()


def obey(rule: ListenRule) -> None:
    """Set the rule of this process."""
    global _rule
    _rule = rule


def check_listening() -> None:
    """Raise RunFailed if this process must not listen; called before any listening."""
    if _rule.outside is not None and network_id() in (0, _rule.outside):
        raise RunFailed(_rule.sentence)


def rule_of(network: Network, refused: str) -> ListenRule:
    """Return the rule of a run's ranks; `refused` is the reason why the machine's network is forbidden, empty if
    allowed.
    """
    if network.level == "namespace":
        return ListenRule(network.outside, STAYED_OUTSIDE)
    return ListenRule(network.outside, refused) if network.level == "host" and refused else ListenRule()


def network_id() -> int:
    """Return the id of this process's network namespace; 0 on systems without."""
    try:
        return Path("/proc/self/ns/net").stat().st_ino
    except OSError:
        return 0


def isolate() -> str:
    """Move this single-threaded process to a new network namespace with a working loopback.

    Return "" on success, otherwise the reason; this process is then unchanged. A forked process tries all steps first,
    as some systems allow creating a namespace, but not configuring it.
    """
    if not sys.platform.startswith("linux"):
        return f"{sys.platform} has no network namespaces"
    if why := tried(_enter_new):
        return why
    _enter_new()
    return ""


def tried(enter: Callable[[], str | None]) -> str:
    """Return why a forked process could not `enter` namespaces, or what that returns; empty if it could."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            why = enter() or ""
        except BaseException as error:
            why = f"{type(error).__name__}: {error}"
        with suppress(OSError):
            os.write(theirs, (why or "ok").encode())
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours, "rb") as answers:
        answer = answers.read().decode()
    os.waitpid(pid, 0)
    return "" if answer == "ok" else answer or "the test process was killed"


def why_not_here(module: str) -> str:
    """Return what a separate process of this user, which runs a module of namespaces, says against them; empty if
    nothing.
    """
    from engine.home import ROOT

    try:
        answer = subprocess.run(
            [sys.executable, "-m", module], cwd=ROOT, capture_output=True, text=True, timeout=_PROBE_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    failed = (answer.stderr.strip().splitlines() or ["the test process failed"])[-1] if answer.returncode else ""
    return failed or answer.stdout.strip()


def _enter_new() -> None:
    """Enter a new network namespace, with a user namespace if required for permission; raises OSError."""
    user, group = os.geteuid(), os.getegid()
    try:
        libc_call("unshare", _NEW_NET)
    except PermissionError:
        libc_call("unshare", _NEW_USER | _NEW_NET)
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
    """Move this single-threaded process to the network namespace of process `pid`, and to its user namespace if
    different.

    Raises OSError.
    """
    for kind, flag in (("user", _NEW_USER), ("net", _NEW_NET)):
        theirs = Path(f"/proc/{pid}/ns/{kind}")
        if theirs.stat().st_ino == Path(f"/proc/self/ns/{kind}").stat().st_ino:
            continue  # entering the current user namespace is an error
        descriptor = os.open(theirs, os.O_RDONLY | os.O_CLOEXEC)
        try:
            libc_call("setns", descriptor, flag)
        finally:
            os.close(descriptor)


def libc_call(name: str, *arguments: Any) -> None:
    """Make a system call of libc by name (in Python only since 3.12); raises OSError."""
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def outer_level() -> Level:
    """Return the network of a process without a separate namespace: a container's, or the machine's.

    A container counts unless it uses the machine's network (`--network host`), and if its first process runs as this
    user: a system container, with an init, may have other users.
    """
    settings = Path("/proc/sys/net/core")
    try:
        if (settings / "netdev_budget").exists() or not (settings / "somaxconn").exists():
            return "host"  # every network has the second setting, only the machine's has the first
        apart = Path("/proc/self/ns/pid").stat().st_ino != _FIRST_PID_NAMESPACE
        return "container" if apart and Path("/proc/1").stat().st_uid == os.geteuid() else "host"
    except OSError:
        return "host"


@cache
def machine_level() -> tuple[Level, str]:
    """Return the network of ranks started by this user, tested in a separate process, and why they have no namespace
    (or "").
    """
    why = why_not_here("engine.system.network_isolation")
    return (outer_level(), why) if why else ("namespace", "")


if __name__ == "__main__":
    print(isolate())
