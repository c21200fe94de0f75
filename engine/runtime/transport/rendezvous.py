"""Rendezvous of ranks: torch's file stores in the run's folder, for any characters in its path; for ranks on several
nodes its TCP store at the worker.

torch doesn't decode the path of a `file://` address and cuts it at `?` and `#`, so ours is quoted.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

from torch.distributed import FileStore, PrefixStore, TCPStore  # type: ignore[attr-defined]
from torch.distributed.rendezvous import register_rendezvous_handler

from engine.runtime.rank.rank import Rank
from engine.system.run_files import RENDEZVOUS_SUFFIX

SCHEME, TCP_SCHEME = "parallab-file", "parallab-tcp"


def store_of(rank: Rank, name: str) -> Any:
    """Return the store of that name, which any number of the run's ranks may share."""
    if rank.meeting_point:
        return PrefixStore(name, TCPStore(*rank.meeting_point, is_master=False))
    return FileStore(_path(rank, name), -1)


def address(rank: Rank, name: str) -> str:
    """Return the address of that name for torch's `init_method`."""
    if rank.meeting_point:
        host, port = rank.meeting_point
        return f"{TCP_SCHEME}://{host}:{port}/{quote(name)}"
    return f"{SCHEME}://{quote(_path(rank, name))}"


def use_interface(rank: Rank) -> None:
    """Let torch's connections of this process use the ranks' network interface."""
    for library in ("TP", "GLOO", "NCCL"):
        os.environ[f"{library}_SOCKET_IFNAME"] = rank.context.interface


@contextmanager
def meeting_point(host: str) -> Iterator[tuple[str, int]]:
    """Serve a TCP store for ranks on several nodes for the block, on this address alone; yield host and port.

    torch's own listener would be open on all interfaces.
    """
    with socket.create_server((host, 0)) as listener:
        port = listener.getsockname()[1]
        store = TCPStore(
            host,
            port,
            is_master=True,
            wait_for_workers=False,
            master_listen_fd=os.dup(listener.fileno()),
            use_libuv=False,
        )
        yield host, port
        del store


def _path(rank: Rank, name: str) -> str:
    return str(rank.folder / f"{name}{RENDEZVOUS_SUFFIX}")


def _meet(url: str, **_: Any) -> Iterator[tuple[FileStore, int, int]]:
    parts = urlsplit(url)
    index, world = (int(parse_qs(parts.query)[name][0]) for name in ("rank", "world_size"))
    yield FileStore(unquote(parts.path), world), index, world


def _meet_at(url: str, **_: Any) -> Iterator[tuple[PrefixStore, int, int]]:
    parts = urlsplit(url)
    index, world = (int(parse_qs(parts.query)[name][0]) for name in ("rank", "world_size"))
    yield PrefixStore(parts.path, TCPStore(str(parts.hostname), int(parts.port or 0), is_master=False)), index, world


register_rendezvous_handler(TCP_SCHEME, _meet_at)  # type: ignore[no-untyped-call]
register_rendezvous_handler(SCHEME, _meet)  # type: ignore[no-untyped-call]
