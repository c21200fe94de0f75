"""The machine during a run: CPU, memory and GPU, of the host and of each rank."""

import os
import time
from collections.abc import Sequence

import psutil

from engine.store.curve_records import MachineSample
from engine.store.timestamps import now
from engine.system.machine import gpu_load

EVERY_S = 1.0
MB = 2**20


class Telemetry:
    """Samples the host, its GPUs and the given processes at most once in `EVERY_S`."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._processes: dict[int, psutil.Process] = {}
        for pid in pids:
            try:
                self._processes[pid] = psutil.Process(pid)
            except psutil.Error:
                continue
        self._latest: dict[int, tuple[float, float]] = {}
        self._sampled_at = 0.0
        psutil.cpu_percent()  # the first call only sets the reference for the next one

    def due(self) -> bool:
        """Return whether a sample is due."""
        return time.monotonic() - self._sampled_at >= EVERY_S

    def sample(self) -> list[MachineSample]:
        """Return current host and GPU numbers, and store those of each rank for `of`."""
        self._sampled_at = time.monotonic()
        at = now()
        memory = psutil.virtual_memory()
        values = [
            ("host", "cpu_percent", psutil.cpu_percent()),
            ("host", "memory_mb", memory.used / MB),
            ("host", "memory_percent", memory.percent),
        ]
        for pid, process in self._processes.items():
            try:
                with process.oneshot():
                    self._latest[pid] = (process.memory_info().rss / MB, process.cpu_percent())
            except psutil.Error:
                continue
        own = (os.getpid(), *self._processes)  # the worker may hold shared tensors on a GPU
        for index, load in gpu_load(own).items():
            values += [(f"gpu{index}", name, value) for name, value in load.items()]
        return [MachineSample(at, source, name, float(value)) for source, name, value in values]

    def of(self, pid: int) -> tuple[float | None, float | None]:
        """Return a rank's resident memory (MB) and CPU use (percent of one core) as last sampled."""
        return self._latest.get(pid, (None, None))
