"""What this machine has, and what a config asks of it. Torch-free: GPUs are read through NVML."""

import os
import platform
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil
import pynvml

from engine.config import Config
from engine.errors import DeviceError
from engine.store.records import Demand

MB = 2**20


@dataclass(frozen=True)
class Gpu:
    """One GPU as NVML names it."""

    index: int
    name: str
    memory_mb: int


@dataclass(frozen=True)
class Machine:
    """The machine that the runner serves."""

    cores: int
    gpus: tuple[Gpu, ...]
    cpu_model: str
    memory_gb: float
    core_ids: tuple[int, ...] = ()
    """The cores by number; empty where the system does not tell."""


@cache
def machine() -> Machine:
    """Return what this machine has; cores are those this process may use."""
    ids = tuple(sorted(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else ()
    return Machine(
        len(ids) or os.cpu_count() or 1, _gpus(), _cpu_model(), round(psutil.virtual_memory().total / 2**30, 1), ids
    )


def demand(config: Config, machine: Machine) -> Demand:
    """Return what a run of `config` takes here; raises DeviceError where the machine lacks the device asked for.

    Cores are capped at the machine's: more ranks than cores share them, and the launch page says so.
    """
    ranks, threads = len(config.roles), config.threads(machine.cores)
    gpus = 0 if config.device in ("cpu", "mps") else min(config.max_gpus, len(machine.gpus))
    if config.device == "cuda" and not gpus:
        raise DeviceError(
            "device is 'cuda', but this machine shows no NVIDIA GPU. Choose device auto or cpu, or mend the "
            "driver (see the doctor command)."
        )
    if config.device == "mps" and platform.system() != "Darwin":
        raise DeviceError("device is 'mps', which only Apple machines have. Choose device auto or cpu.")
    cores = sum(1 if role in config.server_roles else threads for role in config.roles)
    return Demand(min(cores, machine.cores), gpus, ranks, threads, config.listens(gpus))


def gpu_load() -> dict[int, dict[str, float]]:
    """Return each GPU's use (percent) and memory (MB); empty where there is none, and without one that has stopped to
    answer.
    """
    found = {}
    for index, handle in enumerate(_handles()):
        try:
            memory, use = pynvml.nvmlDeviceGetMemoryInfo(handle), pynvml.nvmlDeviceGetUtilizationRates(handle)
        except pynvml.NVMLError:
            continue
        found[index] = {"gpu_percent": float(use.gpu), "memory_mb": float(memory.used) / MB}
    return found


@cache
def _handles() -> tuple[object, ...]:
    """Return NVML's handle of each GPU, empty where there is no driver."""
    try:
        pynvml.nvmlInit()
        return tuple(pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount()))
    except pynvml.NVMLError:
        return ()


def gpu_memory_of(pids: Collection[int]) -> dict[int, dict[int, float]]:
    """Return the memory (MB) that each GPU counts for some of these processes, as {GPU: {pid: MB}}; empty where there
    is none.

    In a container NVML may name processes by the numbers that they have outside of it; those are not found.
    """
    found: dict[int, dict[int, float]] = {}
    for index, handle in enumerate(_handles()):
        try:
            running = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
        except pynvml.NVMLError:
            continue
        if own := {process.pid: float(process.usedGpuMemory or 0) / MB for process in running if process.pid in pids}:
            found[index] = own
    return found


def _gpus() -> tuple[Gpu, ...]:
    found = []
    for index, handle in enumerate(_handles()):
        name = pynvml.nvmlDeviceGetName(handle)
        text = name.decode() if isinstance(name, bytes) else str(name)
        found.append(Gpu(index, text, int(pynvml.nvmlDeviceGetMemoryInfo(handle).total) // MB))
    return tuple(found)


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
