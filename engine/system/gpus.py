"""Current state of this machine's GPUs, through one interface: NVML, or a fake for tests of slots. Torch-free."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import pynvml

MB = 2**20
FREE_MB = 1_024.0
"""A GPU with more memory in use is busy, as NVML in a container hides processes outside of it. Drivers use some hundred
MB.
"""


@dataclass(frozen=True)
class GpuState:
    """One GPU at one moment."""

    used_mb: float
    pids: tuple[int, ...] = ()
    """Compute processes."""

    @property
    def idle(self) -> bool:
        """Whether no process computes on it or uses its memory."""
        return not self.pids and self.used_mb <= FREE_MB


class Gpus(Protocol):
    """The runner's interface to GPUs."""

    def states(self) -> Mapping[int, GpuState]:
        """Return each responding GPU, by index; one that fell off the bus is absent."""


class NvmlGpus:
    """The GPUs according to NVML."""

    def states(self) -> Mapping[int, GpuState]:
        """Return each responding GPU; empty without a driver."""
        try:
            pynvml.nvmlInit()
            count = pynvml.nvmlDeviceGetCount()
        except pynvml.NVMLError:
            return {}
        return {index: state for index in range(count) if (state := _state(index))}


@dataclass
class FakeGpus:
    """Fake GPUs with a state set by tests."""

    count: int
    _changed: dict[int, GpuState | None] = field(default_factory=dict)

    def states(self) -> Mapping[int, GpuState]:
        """Return the set state of each GPU; idle by default."""
        found = {index: self._changed.get(index, GpuState(0.0)) for index in range(self.count)}
        return {index: state for index, state in found.items() if state is not None}

    def occupy(self, index: int, *, used_mb: float = 0.0, pids: tuple[int, ...] = ()) -> None:
        """Make a GPU busy."""
        self._changed[index] = GpuState(used_mb, pids)

    def lose(self, index: int) -> None:
        """Make a GPU fall off the bus."""
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
    """Return a GPU's memory; `used` excludes the driver's own memory if known."""
    try:
        return pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
    except (pynvml.NVMLError, TypeError, AttributeError):
        return pynvml.nvmlDeviceGetMemoryInfo(handle)
