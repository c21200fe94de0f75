"""Tensors in shared memory: other ranks get them as handles, without a copy."""

import math
import shutil
from pathlib import Path

import torch
from torch import Tensor

from engine.errors import DataError

SHARED_MEMORY = Path("/dev/shm")


def shared(tensor: Tensor) -> Tensor:
    """Move a CPU tensor into shared memory, so that other processes get it as a handle; return it."""
    return tensor.share_memory_()  # type: ignore[no-any-return, no-untyped-call]


def shared_zeros(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return zeros in shared memory, without writing them: a page costs time only at its first access."""
    count = math.prod(shape)
    storage = torch.UntypedStorage._new_shared(count * dtype.itemsize)  # type: ignore[no-untyped-call]  # the system returns zeroed pages
    return torch.empty(0, dtype=dtype).set_(storage, 0, shape)  # type: ignore[call-overload,no-any-return]


def check_room(name: str, needed: int) -> None:
    """Raise DataError if shared memory has no room for `needed` bytes of `name`: exceeding it ends a process with
    SIGBUS.
    """
    if not SHARED_MEMORY.is_dir():
        return
    free = shutil.disk_usage(SHARED_MEMORY).free
    if free < needed:
        raise DataError(
            f"{name} needs {needed / 1e6:.0f} MB of shared memory, but {SHARED_MEMORY} has "
            f"{free / 1e6:.0f} MB free. Free some, or enlarge it (in a container: --shm-size=1g)."
        )
