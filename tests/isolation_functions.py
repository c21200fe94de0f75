"""What ranks do in the tests of isolation, and what somebody else on the machine does to them."""

import ctypes
import os
import re
import socket
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

from torch.distributed import HashStore, autograd, rpc
from torch.distributed.rpc import api

from engine.runtime.transport.allreduce import Collective, torch_group
from engine.runtime.transport.rpc import joined
from engine.runtime.worker.ranks import Rank

NOBODY = 65534
SIZE = 100
_LISTENS = "0A"
_LIBC, _SET_DUMPABLE = ctypes.CDLL(None), 4


def opened(rank: Rank, kind: str, given: Any) -> AbstractContextManager[Any]:
    """Open one kind of listener."""
    if kind == "rpc":
        return joined(rank, 30)
    if kind == "group":
        return torch_group(rank, "gloo", 30)
    return given.join(rank)


def given_to(kind: str, roles: tuple[str, ...]) -> Collective | None:
    """Return what ranks need for one kind of listener."""
    return Collective.create("gloo", SIZE, roles, 30) if kind == "ring" else None


def listen(rank: Rank, kind: str, given: Any) -> None:
    """Open a listener of one kind and wait for ever."""
    with opened(rank, kind, given):
        rank.ready()
        os.read(os.pipe()[0], 1)


def try_to_listen(rank: Rank, kind: str, given: Any) -> None:
    """Open a listener of one kind, and leave."""
    with opened(rank, kind, given):
        rank.barrier("open")


def listeners(pid: int) -> tuple[list[int], list[str]]:
    """Return the TCP ports and the abstract Unix sockets on which this process listens, as it sees them itself, the
    oldest first.

    A port on which some other process listens in the test's own network is left out: who reaches that reaches no rank.
    """
    inodes = {match[1] for link in _links(pid) if (match := re.match(r"socket:\[(\d+)\]", link))}
    ports = {int(inode): port for inode, port in _listening(pid).items() if inode in inodes}
    others = {port for inode, port in _listening(os.getpid()).items() if inode not in inodes}
    sockets = [line.split() for line in Path(f"/proc/{pid}/net/unix").read_text().splitlines()[1:]]
    names = [row[7] for row in sockets if len(row) == 8 and row[7].startswith("@") and row[6] in inodes]
    return [ports[inode] for inode in sorted(ports) if ports[inode] not in others], names


def _listening(pid: int) -> dict[str, int]:
    """Return by inode the ports that somebody listens on in the network of this process."""
    rows = [
        line.split()
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]
    ]
    return {row[9]: int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == _LISTENS}


def _links(pid: int) -> Iterable[str]:
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            yield str(entry.readlink())


"localhost".encode("idna")  # loads what sockets need, which another user may not be able to read


def as_nobody(attack: Callable[..., str], *given: Any) -> str:
    """Return what `attack(*given)` returns in a process of another user; what it raises comes as text."""
    ours, theirs = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            _LIBC.prctl(
                _SET_DUMPABLE, 1
            )  # as is every process that a user starts: else its files under /proc stay root's
            answer = attack(*given)
        except BaseException as error:
            answer = f"{type(error).__name__}: {error}"
        os.write(theirs, answer.encode()[:4000])
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours, "rb") as answers:
        answer = answers.read().decode()
    os.waitpid(pid, 0)
    return answer


def reached(ports: Iterable[int], names: Iterable[str]) -> str:
    """Return which of these listeners take a connection."""
    found = []
    for port in ports:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=10):
            found.append(str(port))
    for name in names:
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            line.connect(f"\0{name[1:]}")
            found.append(name)
    return f"reached {' '.join(found) or 'nothing'}"


def user_of(port: int, role: str) -> str:
    """Return the user that a rank runs as, asked by remote call through its listener: what anybody may do who reaches
    it.
    """
    store = HashStore()
    store.set("names/0", role)
    store.set(f"addrs/{role}", f"uv://127.0.0.1:{port}")
    options = rpc.TensorPipeRpcBackendOptions(num_worker_threads=2, rpc_timeout=10)
    with suppress(RuntimeError):  # this process may have had a part in distributed autograd before
        autograd._init(1)
    agent = rpc.TensorPipeAgent(store, "stranger", 1, 2, options, {}, [])
    api._init_rpc_states(agent)
    return f"uid {rpc.rpc_sync(role, os.getuid)}"
