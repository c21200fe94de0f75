"""Imports of the fork server only, before it forks a rank: it leaves the machine's network, dies with its worker, and
loads torch and the methods.

Multiprocessing ignores a preload that fails: `LOADED` marks that this one completed, and each rank reports it.
"""

import gc
import os

from engine.system import network_isolation

LOADED = False
WHY_NOT_ISOLATED = (
    "" if os.environ.get("PARALLAB_SPREAD") else network_isolation.isolate()
)  # first of all: torch starts threads, and a process with threads can't enter a user namespace

from engine.system.processes import die_with_parent  # noqa: E402

die_with_parent(int(os.environ["PARALLAB_WORKER_PID"]))

gc.disable()  # imports make little garbage, and searches for it take a fifth of the time
try:
    import torch

    import engine.runtime.worker.ranks  # noqa: F401
    from engine.registry import EXPERIMENTS, method
    from engine.runtime.rank.fork_server import is_in_hurry

    torch.set_num_threads(1)
    for _name in EXPERIMENTS:
        method(_name)
    # Only some methods use torch's optimizers, whose first one imports torch._dynamo for two seconds: a run that has
    # arrived does not wait for it.
    if not is_in_hurry():
        _parameter = torch.nn.Parameter(torch.zeros(1))
        _parameter.grad = torch.zeros(1)
        _optimizer = torch.optim.SGD([_parameter], lr=0.1, momentum=0.5)
        _optimizer.step()
        _optimizer.zero_grad()
    LOADED = not torch.cuda.is_initialized()  # type: ignore[no-untyped-call]  # CUDA does not survive a fork
finally:
    gc.freeze()  # collections in ranks skip what was imported here, whose memory stays shared
    gc.enable()
