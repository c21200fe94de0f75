"""This machine's resources: cores, memory, GPUs, free disk space, and the demand of a config."""

import os
import platform
import shutil
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import psutil
import pynvml

from engine.access.quotas import GB, MB
from engine.errors import ConfigError, DeviceError, counted
from engine.home import Home
from engine.store.records import Demand

if TYPE_CHECKING:
    from engine.config import Config  # its schemas take a tenth of a second to load

# ---- This machine's resources, and the demand of a config ----------------------------------------------------------
# Torch-free: GPUs are read through NVML.


@dataclass(frozen=True)
class Gpu:
    """One GPU, with its name from NVML."""

    index: int
    name: str
    memory_mb: int


@dataclass(frozen=True)
class Machine:
    """The runner's machine."""

    cores: int
    gpus: tuple[Gpu, ...]
    cpu_model: str
    memory_gb: float
    core_ids: tuple[int, ...] = ()
    """Core numbers; empty if unknown."""
    nodes: int = 1
    """Nodes of a cluster that these resources are of."""
    cluster: str = ""
    """The cluster's name; empty for this machine."""


@cache
def machine() -> Machine:
    """Return this machine's resources; cores are those available to this process."""
    ids = tuple(sorted(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else ()
    return Machine(
        len(ids) or os.cpu_count() or 1, _gpus(), _cpu_model(), round(psutil.virtual_memory().total / GB, 1), ids
    )


def demand(config: "Config", machine: Machine) -> Demand:
    """Return a run's demand on this machine; raises DeviceError if the requested device is missing.

    Cores are capped at the machine's: more ranks than cores share them, as the launch page shows.
    """
    ranks, threads = len(config.roles), config.threads(machine.cores)
    if machine.nodes > 1:
        _check_nodes(config, machine.nodes)
    gpus = 0 if config.device in ("cpu", "mps") else min(config.max_gpus, len(machine.gpus))
    if config.device == "cuda" and not config.max_gpus:
        raise DeviceError(
            "device is 'cuda', but a run with these settings computes on the CPU. Choose device auto or cpu."
        )
    if config.device == "cuda" and not gpus:
        raise DeviceError(
            f"device is 'cuda', but cluster {machine.cluster} has no GPU (key gpus of clusters.toml). Choose device "
            "auto or cpu."
            if machine.cluster
            else "device is 'cuda', but this machine has no usable NVIDIA GPU. Choose device auto or cpu, or repair "
            "the driver (see the doctor command)."
        )
    if config.device == "mps" and platform.system() != "Darwin":
        raise DeviceError("device is 'mps', which is available only on Apple machines. Choose device auto or cpu.")
    cores = sum(1 if role in config.server_roles else threads for role in config.roles)
    listens_here = not machine.cluster and config.listens(gpus)  # a node sees to its own network
    return Demand(min(cores, machine.cores), gpus, ranks, threads, listens_here)


def _check_nodes(config: "Config", nodes: int) -> None:
    """Raise ConfigError for a config whose ranks can't be spread over nodes."""
    why = config.why_one_node()
    if not why and len(config.roles) < nodes:
        why = f"This run has {counted(len(config.roles), 'rank')}, fewer than {nodes} nodes."
    if why:
        raise ConfigError.of("nodes", f"{why} Choose 1 node.")


def gpu_load(own: Collection[int] = ()) -> dict[int, dict[str, float]]:
    """Return each GPU's memory (MB), use (percent) and clock (MHz), without GPUs that don't respond; with the number of
    other processes on it where those of `own` (pids) are seen among them, which a container can prevent.
    """
    found = {}
    for index, handle in _handles().items():
        try:
            found[index] = {"memory_mb": float(pynvml.nvmlDeviceGetMemoryInfo(handle).used) / MB}
        except pynvml.NVMLError:
            continue
        with suppress(pynvml.NVMLError):  # a GPU that is divided (MIG) has no use of its own
            found[index]["gpu_percent"] = float(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu)
        with suppress(pynvml.NVMLError):
            found[index]["clock_mhz"] = float(pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM))
        with suppress(pynvml.NVMLError):
            pids = {process.pid for process in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)}
            if pids & set(own):
                found[index]["other_processes"] = float(len(pids - set(own)))
    return found


@cache
def _handles() -> dict[int, object]:
    """Return NVML's handle of each GPU that responds, by index; empty without a driver."""
    try:
        pynvml.nvmlInit()
        count = pynvml.nvmlDeviceGetCount()
    except pynvml.NVMLError:
        return {}
    found = {}
    for index in range(count):
        with suppress(pynvml.NVMLError):
            found[index] = pynvml.nvmlDeviceGetHandleByIndex(index)
    return found


def gpu_memory_of(pids: Collection[int]) -> dict[int, dict[int, float]]:
    """Return the memory (MB) of processes on each GPU, as {GPU: {pid: MB}}.

    In a container, NVML may report the pids outside of it; these are not found.
    """
    found: dict[int, dict[int, float]] = {}
    for index, handle in _handles().items():
        try:
            running = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
        except pynvml.NVMLError:
            continue
        if own := {process.pid: float(process.usedGpuMemory or 0) / MB for process in running if process.pid in pids}:
            found[index] = own
    return found


def _gpus() -> tuple[Gpu, ...]:
    """Return the GPUs that torch may use, by NVML's index, which is CUDA's under CUDA_DEVICE_ORDER=PCI_BUS_ID."""
    found, names = {}, {}
    for index, handle in _handles().items():
        with suppress(pynvml.NVMLError):
            names[index] = _text(pynvml.nvmlDeviceGetUUID(handle))
            memory_mb = int(pynvml.nvmlDeviceGetMemoryInfo(handle).total) // MB
            found[index] = Gpu(index, _text(pynvml.nvmlDeviceGetName(handle)), memory_mb)
    allowed = visible_gpus(os.environ.get("CUDA_VISIBLE_DEVICES"), names)
    return tuple(gpu for index, gpu in found.items() if index in allowed)


def visible_gpus(variable: str | None, names: Mapping[int, str]) -> set[int]:
    """Return the indices of the GPUs (unique names by index) that a value of CUDA_VISIBLE_DEVICES allows, read as CUDA
    does: indices or beginnings of names, up to the first that fits none.
    """
    if variable is None:
        return set(names)
    allowed: set[int] = set()
    for entry in map(str.strip, variable.split(",")):
        found = [
            index
            for index, name in names.items()
            if entry == str(index) or (entry.startswith("GPU-") and name.startswith(entry))
        ]
        if len(found) != 1:
            break
        allowed |= {*found}
    return allowed


def _text(name: str | bytes) -> str:
    return name.decode() if isinstance(name, bytes) else name


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


# ---- Current state of this machine's GPUs, through one interface: NVML, or a fake for tests of slots ---------------
# Torch-free.

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


# ---- Free disk space: the home's disk, the store with its write-ahead log, the data sets' folder -------------------
# Torch-free.


@dataclass(frozen=True)
class Storage:
    """Sizes in bytes."""

    disk_free: int
    disk_total: int
    store: int
    write_ahead_log: int
    data_free: int
    """Free on the disk of the data sets' folder."""
    has_data: bool
    """Whether that folder exists."""


def storage(home: Home) -> Storage:
    """Measure disk space; missing folders count as empty, on the disk of the nearest parent."""
    here, there = shutil.disk_usage(_nearest(home.path)), shutil.disk_usage(_nearest(home.data))
    log = home.database.with_name(f"{home.database.name}-wal")
    return Storage(here.free, here.total, _size(home.database), _size(log), there.free, home.data.is_dir())


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _nearest(path: Path) -> Path:
    return next(folder for folder in (path, *path.parents) if folder.exists())
