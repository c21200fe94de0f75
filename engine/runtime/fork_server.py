"""The process that ranks are forked from, so that they start in milliseconds: it holds torch and dies with its worker."""

import os
import sys
from multiprocessing import forkserver, get_context, set_forkserver_preload
from multiprocessing.connection import Connection

from engine.home import ROOT

PRELOAD = "engine.runtime.preload"


def start() -> None:
    """Start this process's fork server, which loads torch in the background.

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
        }
    )
    set_forkserver_preload([PRELOAD])
    forkserver.ensure_running()


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
