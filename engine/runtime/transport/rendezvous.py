"""Rendezvous of ranks: torch's file stores in the run's folder, for any characters in its path.

torch doesn't decode the path of a `file://` address and cuts it at `?` and `#`, so ours is quoted.
"""

from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

from torch.distributed import FileStore  # type: ignore[attr-defined]
from torch.distributed.rendezvous import register_rendezvous_handler

from engine.runtime.rank.rank import Rank
from engine.system.run_files import RENDEZVOUS_SUFFIX

SCHEME = "parallab-file"


def store_of(rank: Rank, name: str) -> Any:
    """Return the store of that name, which any number of the run's ranks may share."""
    return FileStore(_path(rank, name), -1)


def address(rank: Rank, name: str) -> str:
    """Return the address of that name for torch's `init_method`."""
    return f"{SCHEME}://{quote(_path(rank, name))}"


def _path(rank: Rank, name: str) -> str:
    return str(rank.folder / f"{name}{RENDEZVOUS_SUFFIX}")


def _meet(url: str, **_: Any) -> Iterator[tuple[FileStore, int, int]]:
    parts = urlsplit(url)
    index, world = (int(parse_qs(parts.query)[name][0]) for name in ("rank", "world_size"))
    yield FileStore(unquote(parts.path), world), index, world


register_rendezvous_handler(SCHEME, _meet)  # type: ignore[no-untyped-call]
