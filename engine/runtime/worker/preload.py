"""What a fork server has loaded when it forks a rank: torch and the methods.

A worker imports it and forks; multiprocessing imports it in a fork server that is a new Python, and ignores a failure:
`LOADED` marks that this import completed, and each rank reports it.
"""

import gc
import os

from engine.runtime.rank import fork_server

LOADED = False
if os.environ[fork_server.WORKER_PID] != str(os.getpid()):
    fork_server.begin(int(os.environ[fork_server.WORKER_PID]))  # first of all: torch starts threads

gc.disable()  # imports make little garbage, and searches for it take a fifth of the time
try:
    import torch

    import engine.runtime.worker.ranks  # noqa: F401
    from engine.registry import EXPERIMENTS, method

    torch.set_num_threads(1)
    for _name in EXPERIMENTS:
        method(_name)
    LOADED = not torch.cuda.is_initialized()  # type: ignore[no-untyped-call]  # CUDA does not survive a fork
finally:
    gc.freeze()  # collections in ranks skip what was imported here, whose memory stays shared
    gc.enable()
