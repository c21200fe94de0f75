"""Gradients added outside the lock: a fault of parameter_server.

source: The blog series on parallel SGD: the MNIST parameter server
wrong: Handlers in several RPC threads run `p.grad += g` without a lock. torch releases the GIL while it adds, so two
    threads read and write the same numbers and one overwrites the other's addition.
right: Additions run under one lock.
seen: Both overlap and preemption lose additions, and both need a long addition: none are lost at 20,000 numbers (the
    largest tensor of the published network has 16,000), while most rounds lose some at 4 million, the size of
    ResNet-50's large layers. Each round loses additions to a few numbers only. The fault is random: on an idle machine
    with many cores a run may lose none, and the page then reports that.
chart: Rounds with lost additions against Numbers in the tensor
values: short = Rounds with lost additions, 4 million numbers (rounds); rounds = Rounds (rounds)
rule: short = 0
broken: Every number of the sum must include all 4 gradients; additions were lost in {short:.0f} of {rounds:.0f} rounds
    at 4 million numbers. Add under the lock.
guard:
    tests/experiments/servers/test_servers.py::test_no_add_is_lost_and_no_snapshot_is_torn_under_eight_hammering_trainers
"""

from threading import Lock

import torch
from torch import Tensor

from engine.museum.exhibit import Outcome, Version, crowd

TRAINERS, ROUNDS = 4, 15
SIZES = (20_000, 200_000, 1_000_000, 4_000_000)
"""An addition of about ten thousand numbers ends before another thread is scheduled; one of millions does not."""


def wrong(total: Tensor, gradient: Tensor, lock: Lock) -> None:
    total += gradient


def right(total: Tensor, gradient: Tensor, lock: Lock) -> None:
    with lock:
        total += gradient


def measure(seed: int, add: Version) -> Outcome:
    """Count the rounds with a lost addition, for each size of the sum."""
    series = {size: sum(_loses(add, torch.ones(size)) for _ in range(ROUNDS)) for size in SIZES}
    return Outcome({"short": series[SIZES[-1]], "rounds": ROUNDS}, series)


def _loses(add: Version, gradient: Tensor) -> bool:
    """Let all trainers add a gradient of ones to one sum; return whether an addition was lost."""
    total, lock = torch.zeros_like(gradient), Lock()
    crowd(TRAINERS, lambda trainer: add(total, gradient, lock))
    return bool((total < TRAINERS).any())
