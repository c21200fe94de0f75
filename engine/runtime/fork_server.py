"""The process that ranks are forked from, so that they start in milliseconds: it holds torch and dies with its worker."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import forkserver, get_context, set_forkserver_preload
from multiprocessing.connection import Connection

from engine.home import ROOT
from engine.runtime.processes import MARK, mark, me

PRELOAD = "engine.runtime.preload"


def start(hurry: bool = False) -> None:
    """Start this process's fork server, which loads torch in the background; in a `hurry` nothing that only some methods need.

    Its environment is fixed from here on, so the number of OpenMP threads is 1; each rank sets its own later.
    """
    os.environ.update(
        {
            "OMP_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
            "PYTHONUNBUFFERED": "1",
            "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")])),
            "PARALLAB_WORKER_PID": str(os.getpid()),
            MARK: mark(me()),
            "PARALLAB_HURRY": "1" if hurry else "",
        }
    )
    set_forkserver_preload([PRELOAD])
    with _huge_pages():
        forkserver.ensure_running()


@contextmanager
def _huge_pages() -> Iterator[None]:
    """Have processes started in the block ask for huge pages where malloc takes memory from the system (glibc from 2.35 on; others ignore it).

    A vector of a hundred megabytes costs 25,000 page faults each time it is allocated, and a few dozen with huge pages: ResNet-50's
    gradients and weights then travel over RPC in a quarter of the time. It is read at a program's start, so ranks that are spawned do without.
    """
    before = os.environ.get("GLIBC_TUNABLES")
    if "glibc.malloc.hugetlb" not in (before or ""):
        os.environ["GLIBC_TUNABLES"] = ":".join(filter(None, [before, "glibc.malloc.hugetlb=1"]))
    try:
        yield
    finally:
        if before is None:
            os.environ.pop("GLIBC_TUNABLES", None)
        else:
            os.environ["GLIBC_TUNABLES"] = before


def wait_until_loaded() -> bool:
    """Wait until the fork server serves, and return whether it had loaded all it should: asked by a first process forked from it."""
    context = get_context("forkserver")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(theirs,))
    process.start()
    theirs.close()
    try:
        return bool(ours.recv())
    except EOFError:
        return False
    finally:
        process.join()
        ours.close()


def _answer(channel: Connection) -> None:
    channel.send(has_loaded())


def has_loaded() -> bool:
    """Say whether this process was forked from a server that had loaded all it should."""
    return bool(getattr(sys.modules.get(PRELOAD), "LOADED", False))
