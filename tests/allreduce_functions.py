"""What ranks do in the tests of averaging; here because a rank's process must be able to import its function."""

import os
import signal
import threading
from contextlib import ExitStack

import torch
from torch import Tensor

from engine.errors import RunFailed
from engine.runtime.transport.allreduce import AveragingGroup, Collective, torch_group
from engine.runtime.worker.ranks import Rank


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


def average_sizes(rank: Rank, collectives: list[Collective], results: Tensor) -> None:
    """Average a vector of each group's size; leave the first number of each mean."""
    with ExitStack() as stack:
        circles = [stack.enter_context(collective.join(rank)) for collective in collectives]
        rank.ready()
        for place, (collective, circle) in enumerate(zip(collectives, circles, strict=True)):
            vector = torch.full((collective.size,), float(rank.index + 10 * place))
            circle.average(vector, f"group {place}")
            results[rank.index, place] = vector[0]
        rank.barrier("averaged")


def die(rank: Rank, collective: Collective, role: str) -> None:
    """Average; in the third turn one rank kills itself instead of coming."""
    with collective.join(rank) as circle:
        rank.ready()
        for turn in range(1, 10):
            if turn == 3:
                rank.barrier("all have the mean of round 2")  # the star's centre may still be sending it to others
            if rank.role == role and turn == 3:
                os.kill(os.getpid(), signal.SIGKILL)
            circle.average(torch.ones(collective.size), f"round {turn}")


def leave(rank: Rank, collective: Collective, role: str) -> None:
    """Average twice; one rank only once."""
    with collective.join(rank) as circle:
        rank.ready()
        for turn in range(1 if rank.role == role else 2):
            circle.average(torch.ones(collective.size), f"round {turn}")


def stop(rank: Rank, collectives: list[Collective], role: str, amid: bool) -> None:
    """Average over each carrier at once; one rank is stopped before it comes to any, or when it has come to the first
    and sent nothing there.

    Each of the others writes down what it was told about each carrier.
    """
    with ExitStack() as stack:
        circles = [stack.enter_context(collective.join(rank)) for collective in collectives]
        for circle in circles:
            circle.average(torch.ones(collectives[0].size), "round 1")
        rank.ready()
        if rank.role == role:
            if amid:
                circles[0]._average = _stop
                circles[0].average(torch.ones(collectives[0].size), "round 2")
            _stop()
        threads = [
            threading.Thread(target=_wait, args=(rank, circle, collective))
            for circle, collective in zip(circles, collectives, strict=True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        os._exit(7)


def _wait(rank: Rank, circle: AveragingGroup, collective: Collective) -> None:
    try:
        circle.average(torch.ones(collective.size), "round 2")
    except RunFailed as failure:
        rank.say(collective.transport, str(failure))


def _stop(vector: Tensor | None = None) -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def add_up_in_torchs_group(rank: Rank, sums: torch.Tensor) -> None:
    """Sum 1, 2, … over the ranks by torch's own group."""
    with torch_group(rank, "gloo", 30):
        rank.ready()
        mine = torch.tensor([rank.index + 1.0])
        torch.distributed.all_reduce(mine)
        sums[rank.index] = float(mine)
