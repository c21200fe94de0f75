"""Shared memory segments: the processes that use them, and the creator in torch's names. Torch-free."""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

SHARED = Path("/dev/shm")
SHARED_PREFIXES = ("torch_", "psm_")
"""Names of segments of torch and multiprocessing; others belong to other programs."""
_OF_TORCH = re.compile(r"torch_(\d+)_")


def maker_of(path: Path) -> int | None:
    """Return the pid in torch's segment name, None for other names."""
    found = _OF_TORCH.match(path.name)
    return int(found[1]) if found else None


def mapped_by(pid: int, folder: Path = SHARED) -> set[Path]:
    """Return the named segments that a process maps."""
    try:
        lines = Path(f"/proc/{pid}/maps").read_text(errors="surrogateescape").splitlines()
    except OSError:
        return set()
    names = (line.partition("/")[2] for line in lines if f" {folder}/" in line and not line.endswith(" (deleted)"))
    return {
        path for name in names if (path := Path("/" + name)).parent == folder and path.name.startswith(SHARED_PREFIXES)
    }


def held(folder: Path = SHARED) -> set[Path]:
    """Return the segments that any visible process has mapped or open."""
    return {path for pid in psutil.pids() for path in (*mapped_by(pid, folder), *(Path(name) for name in open_by(pid)))}


def open_by(pid: int) -> Iterator[str]:
    """Yield a process's open files, from the links in /proc/PID/fd: a path, or text such as `socket:[77]`."""
    with suppress(OSError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                yield str(descriptor.readlink())


def made_by(pids: frozenset[int], folder: Path = SHARED) -> list[Path]:
    """Return torch's segments created by these processes."""
    try:
        return [path for name in os.listdir(folder) if maker_of(path := folder / name) in pids]  # noqa: PTH208 names alone are needed
    except OSError:
        return []
