"""What ranks do on GPUs in tests; here because a rank's process must be able to import its function."""

import torch
from torch import Tensor, distributed

from engine.runtime.transport.allreduce import torch_group
from engine.runtime.worker.ranks import Rank


def add_under_lock(rank: Rank, shared: Tensor, times: int) -> None:
    """Add 1 to a tensor that all ranks share so many times."""
    assert shared.device == rank.device, f"{rank.role} computes on {rank.device}, but got a tensor on {shared.device}"
    lock = rank.lock("sum")
    rank.ready()
    for _ in range(times):
        with lock:
            shared.add_(1)
            torch.cuda.synchronize()
    rank.barrier("added")


def ask_for_too_much(rank: Rank) -> None:
    """As the last rank, allocate more than any GPU has."""
    rank.ready()
    if rank.index == rank.world - 1:
        torch.empty(2**50, device=rank.device)
    rank.barrier("never reached by all")


def fail_after_the_last_call(rank: Rank) -> None:
    """Return before the GPU has found out that a position lies outside its tensor."""
    values, positions = torch.zeros(4, device=rank.device), torch.tensor([7], device=rank.device)
    rank.ready()
    values.index_select(0, positions)


def sum_by(rank: Rank, backend: str) -> None:
    """Sum over all ranks by one of torch's backends."""
    with torch_group(rank, backend, 60):  # type: ignore[arg-type]
        rank.ready()
        value = torch.ones(1, device=rank.device)
        distributed.all_reduce(value)
        assert value.item() == rank.world
        rank.barrier("summed")
