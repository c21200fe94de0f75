"""The store tests' fixtures, for what keeps a home in order; and what runs leave there."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.home import Home
from engine.store import ProcessIdentity, RankRow, Reader, Store
from engine.store.timestamps import now
from engine.system.processes import boot_id
from engine.upkeep.leftovers import Leftover, leftovers
from tests.store.conftest import add, program, reader, running

__all__ = ["add", "program", "reader", "running"]
GONE = 2**22 + 7
"""A pid that no process has: Linux gives none above 2^22."""
HOUR_AGO = time.time() - 3600


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    """Give a folder in the place of the machine's shared memory."""
    folder = tmp_path / "shm"
    folder.mkdir()
    return folder


@pytest.fixture
def run_with(store: Store, add: Callable[..., int]) -> Callable[..., int]:
    """Begin a run with a worker and the pids of ranks."""

    def begin(worker: ProcessIdentity | None = None, *rank_pids: int) -> int:
        run_id = add()
        worker = worker or ProcessIdentity(boot_id(), GONE + 1, 1)
        store.claims.claim(run_id, worker, ())
        store.worker.begin(run_id, worker, {})
        rows = [
            RankRow(rank, f"trainer{rank + 1}", pid, "cpu", "running", 1, now(), None)
            for rank, pid in enumerate(rank_pids or (GONE,))
        ]
        store.worker.add_ranks(run_id, rows)
        return run_id

    return begin


def found(home: Home, memory: Path) -> list[Leftover]:
    """Return what is left over."""
    with Reader.open(home) as reader:
        return leftovers(home, reader, memory)
