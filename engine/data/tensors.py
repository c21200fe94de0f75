"""Tensors of a rank: its device, memory that it keeps, tensors shared between ranks, and mini-batches."""

import ctypes
import math
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import torch
from torch import Tensor

from engine.errors import DataError, DeviceError

# ---- A run's device: check that torch can use it, and wait for its work --------------------------------------------


def usable(asked: str, given: str) -> torch.device:
    """Return the device a run was given; raises DeviceError if torch can't use it or it is not the requested one."""
    device = torch.device(given)
    if asked not in ("auto", device.type):
        raise DeviceError(
            f"device is '{asked}', but the run was given '{given}'. Choose device auto or cpu, or wait for a free GPU."
        )
    if device.type == "cuda" and not torch.cuda.is_available():
        why = (
            "was built without CUDA"
            if torch.version.cuda is None
            else f"(CUDA {torch.version.cuda}) finds no driver that works with it"
        )
        raise DeviceError(
            f"The run was given an NVIDIA GPU, but torch {torch.__version__} {why}. Choose device "
            "cpu, or install a torch build that fits the driver."
        )
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise DeviceError(
            f"The run was given device '{given}', but torch can use only {torch.cuda.device_count()} of the run's "
            "GPUs. Check with nvidia-smi whether one does not respond, then launch the run again."
        )
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise DeviceError(
            f"device is 'mps', but torch {torch.__version__} can't use an Apple GPU here. Choose device cpu."
        )
    return device


def finish(device: torch.device) -> None:
    """Wait until a GPU has done what this thread asked of it: calls return before. Does nothing for a CPU, or in a
    process that has not used its GPU.
    """
    if device.type == "cuda" and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.current_stream(device).synchronize()


# ---- Keep a training process's memory from one step to the next ----------------------------------------------------

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""glibc's names (malloc.h)."""
LARGEST_MMAP_THRESHOLD = 32 * 2**20
KEPT = 512 * 2**20


def keep_freed_memory() -> None:
    """Make malloc keep freed memory for the next step; does nothing if the C library is not glibc.

    By default glibc may return large tensors to the system after each step, and the next step faults them in page by
    page: 35 to 1,000 page faults per step of the MNIST net, 3 to 50 % of its time, depending on the heap.
    """
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_MMAP_THRESHOLD, LARGEST_MMAP_THRESHOLD)
        mallopt(M_TRIM_THRESHOLD, KEPT)


# ---- Tensors in shared memory: other ranks get them as handles, without a copy -------------------------------------

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


# ---- Mini-batches: a new random order per epoch, one gather per batch ----------------------------------------------


class Batches:
    """Cuts images and labels into mini-batches, in an order that depends only on `seed` and the epoch number.

    The order is drawn on the CPU, so that every device sees the same batches.
    """

    def __init__(self, images: Tensor, labels: Tensor, batch_size: int, seed: int) -> None:
        self.images = images
        self.labels = labels
        self.batch_size = batch_size
        self._random = torch.Generator().manual_seed(seed)
        self.random_state = self._random.get_state()
        """Generator state before the order of the current epoch was drawn."""

    def restore(self, random_state: Tensor) -> None:
        """Redraw the epoch with this generator state next."""
        self._random.set_state(random_state.cpu())

    def epoch(self, first: int = 0) -> Iterator[Tensor]:
        """Yield the positions of each mini-batch of the next epoch, from number `first` on; the last one may be
        smaller.
        """
        self.random_state = self._random.get_state()
        order = torch.randperm(len(self.labels), generator=self._random).to(self.labels.device)
        yield from torch.split(order, self.batch_size)[first:]

    def take(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return the images and labels at these positions."""
        return self.images.index_select(0, positions), self.labels.index_select(0, positions)
