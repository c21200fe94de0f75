"""What the GPUs of this machine do right now, asked through one interface: NVML, or the double that slot tests use.
Torch-free.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import pynvml

MB = 2**20
FREE_MB = 1_024.0
"""A GPU with more memory in use is not free, whoever uses it: in a container NVML names no foreign process. Drivers
keep some hundred MB.
"""


@dataclass(frozen=True)
class GpuState:
    """One GPU at one moment."""

    used_mb: float
    pids: tuple[int, ...] = ()
    """Processes that compute on it."""

    @property
    def idle(self) -> bool:
        """Whether nobody computes on it or keeps its memory."""
        return not self.pids and self.used_mb <= FREE_MB


class Gpus(Protocol):
    """What the runner asks about GPUs before it gives one to a run."""

    def states(self) -> Mapping[int, GpuState]:
        """Return each GPU that answers, by its index; one that fell off is absent."""


class NvmlGpus:
    """The GPUs as NVML shows them."""

    def states(self) -> Mapping[int, GpuState]:
        """Return each GPU that answers; none where there is no driver."""
        try:
            pynvml.nvmlInit()
            count = pynvml.nvmlDeviceGetCount()
        except pynvml.NVMLError:
            return {}
        return {index: state for index in range(count) if (state := _state(index))}


@dataclass
class FakeGpus:
    """GPUs on paper: tests say what is on each."""

    count: int
    _changed: dict[int, GpuState | None] = field(default_factory=dict)

    def states(self) -> Mapping[int, GpuState]:
        """Return what was said of each GPU; idle where nothing was."""
        found = {index: self._changed.get(index, GpuState(0.0)) for index in range(self.count)}
        return {index: state for index, state in found.items() if state is not None}

    def occupy(self, index: int, *, used_mb: float = 0.0, pids: tuple[int, ...] = ()) -> None:
        """Have somebody use a GPU."""
        self._changed[index] = GpuState(used_mb, pids)

    def lose(self, index: int) -> None:
        """Have a GPU fall off the bus."""
        self._changed[index] = None

    def clear(self, index: int) -> None:
        """Make a GPU idle."""
        self._changed[index] = GpuState(0.0)


def _state(index: int) -> GpuState | None:
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        used = float(_memory(handle).used) / MB
        return GpuState(used, tuple(process.pid for process in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)))
    except pynvml.NVMLError:
        return None


def _memory(handle: object) -> Any:
    """Return a GPU's memory, in `used` what the driver keeps for itself left out where it tells."""
    try:
        return pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
    except (pynvml.NVMLError, TypeError, AttributeError):
        return pynvml.nvmlDeviceGetMemoryInfo(handle)
