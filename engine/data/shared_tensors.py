"""Tensors in memory that processes share: they go to other ranks as handles, never as numbers."""

import math
import shutil
from pathlib import Path

import torch
from torch import Tensor

from engine.errors import DataError

SHARED_MEMORY = Path("/dev/shm")


def shared(tensor: Tensor) -> Tensor:
    """Move a tensor of the CPU into shared memory, so that it goes to other processes as a handle; return it."""
    return tensor.share_memory_()  # type: ignore[no-any-return, no-untyped-call]


def shared_zeros(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return zeros in shared memory. Nothing is written: a page of it costs time only when someone first touches it."""
    count = math.prod(shape)
    storage = torch.UntypedStorage._new_shared(count * dtype.itemsize)  # type: ignore[no-untyped-call]  # the system gives out zeros
    return torch.empty(0, dtype=dtype).set_(storage, 0, shape)  # type: ignore[call-overload,no-any-return]


def check_room(name: str, needed: int) -> None:
    """Raise DataError where shared memory has no room for `needed` bytes of `name`: past its end a process gets no
    error but SIGBUS.
    """
    if not SHARED_MEMORY.is_dir():
        return
    free = shutil.disk_usage(SHARED_MEMORY).free
    if free < needed:
        raise DataError(
            f"{name} needs {needed / 1e6:.0f} MB of shared memory, but {SHARED_MEMORY} has {free / 1e6:.0f} MB free. "
            "End what uses it, or enlarge it (in a container: --shm-size=1g)."
        )
