"""Imports of the fork server only, before it forks a rank: it leaves the machine's network, dies with its worker, and
loads torch and the methods.

Multiprocessing ignores a preload that fails: `LOADED` marks that this one completed, and each rank reports it.
"""

import os
from contextlib import suppress

from engine.system import network_isolation

LOADED = False
WHY_NOT_ISOLATED = (
    network_isolation.isolate()
)  # first of all: torch starts threads, and a process with threads can't enter a user namespace

from engine.system.processes import die_with_parent  # noqa: E402

die_with_parent(int(os.environ["PARALLAB_WORKER_PID"]))

import torch  # noqa: E402

import engine.runtime.worker.ranks  # noqa: E402, F401
from engine.registry import EXPERIMENTS, method  # noqa: E402

torch.set_num_threads(1)
_parameter = torch.nn.Parameter(torch.zeros(1))
_parameter.grad = torch.zeros(1)
_optimizer = torch.optim.SGD(
    [_parameter], lr=0.1, momentum=0.5
)  # the first optimizer imports torch modules for a second
_optimizer.step()
_optimizer.zero_grad()
for _name in EXPERIMENTS:
    method(_name)
if not os.environ.get("PARALLAB_HURRY"):
    with suppress(Exception):  # a broken torchvision fails only the runs that need it
        import torchvision.models.resnet  # noqa: F401  (a second of each rank's start)
LOADED = not torch.cuda.is_initialized()  # type: ignore[no-untyped-call]  # CUDA does not survive a fork
