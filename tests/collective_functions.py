"""What ranks do in the tests of averaging; here because a rank's process must be able to import its function."""

import os
import signal

import torch
from torch import Tensor

from engine.runtime.collective import Collective, torch_group
from engine.runtime.ranks import Rank


def vector_of(index: int, turn: int, size: int) -> Tensor:
    """Return what a rank brings in a turn: numbers whose sum depends on the order of adding."""
    return torch.randn(size, generator=torch.Generator().manual_seed(1000 * turn + index)) * 10.0**index


def average_often(rank: Rank, collective: Collective, results: Tensor, waits: Tensor) -> None:
    """Average a vector of one's own in each turn; leave the means and the waiting times."""
    with collective.join(rank) as circle:
        rank.ready()
        for turn in range(len(results)):
            vector = vector_of(rank.index, turn, collective.size)
            waits[turn, rank.index] = circle.average(vector, f"turn {turn}")
            results[turn, rank.index].copy_(vector)
        rank.barrier("averaged")


def fall(rank: Rank, collective: Collective, role: str, number: int) -> None:
    """Average; in the third turn one rank sends itself a signal instead of coming."""
    with collective.join(rank) as circle:
        rank.ready()
        for turn in range(1, 10):
            if turn == 3:
                rank.barrier("all have the mean of round 2")  # the star's centre may still be sending it to others
            if rank.role == role and turn == 3:
                os.kill(os.getpid(), number)
            circle.average(torch.ones(collective.size), f"round {turn}")


def stop_amid(rank: Rank, collective: Collective, role: str) -> None:
    """Average; one rank comes, and is stopped before it has sent anything."""
    with collective.join(rank) as circle:
        rank.ready()
        if rank.role == role:
            circle._average = _stop
        circle.average(torch.ones(collective.size), "round 1")


def _stop(vector: Tensor) -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def add_up_in_torchs_group(rank: Rank, sums: torch.Tensor) -> None:
    """Sum 1, 2, … over the ranks by torch's own group."""
    with torch_group(rank, "gloo", 30):
        rank.ready()
        mine = torch.tensor([rank.index + 1.0])
        torch.distributed.all_reduce(mine)
        sums[rank.index] = float(mine)
