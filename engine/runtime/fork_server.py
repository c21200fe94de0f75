"""The process that ranks are forked from, so that they start in milliseconds: it holds torch and dies with its worker."""

import os
import sys
from multiprocessing import forkserver, set_forkserver_preload

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


def has_loaded() -> bool:
    """Say whether this process was forked from a server that had loaded all it should."""
    return bool(getattr(sys.modules.get(PRELOAD), "LOADED", False))
