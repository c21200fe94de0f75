"""GPUs as NVML shows them: a stand-in for the driver has three, and one of them does not respond."""

import os
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from engine.errors import DeviceError
from engine.registry import experiment
from engine.runtime.usage import Telemetry
from engine.system import machine
from engine.system.machine import Gpu, visible_gpus

GB = 10**9
NAMES = {0: "GPU-aaa0", 1: "GPU-aab1", 2: "GPU-b2"}
OTHER = 2**22 + 1
"""The pid of another program: higher than Linux gives out."""


class Driver:
    """NVML's calls for three GPUs: 0 works, 1 is divided (MIG) and has no use of its own, 2 is lost."""

    def nvmlInit(self) -> None: ...  # noqa: N802 (NVML's names)

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return 3

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        if index == 2:
            raise pynvml.NVMLError_GpuIsLost
        return index

    def nvmlDeviceGetUUID(self, handle: int) -> str:  # noqa: N802
        return NAMES[handle]

    def nvmlDeviceGetName(self, handle: int) -> bytes:  # noqa: N802
        return b"H100"

    def nvmlDeviceGetMemoryInfo(self, handle: int, version: int = 0) -> Any:  # noqa: N802
        return SimpleNamespace(total=80 * GB, used=2 * GB)

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> Any:  # noqa: N802
        if handle == 1:
            raise pynvml.NVMLError_NotSupported
        return SimpleNamespace(gpu=40)

    def nvmlDeviceGetClockInfo(self, handle: int, kind: int) -> int:  # noqa: N802
        return 1980

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> list[Any]:  # noqa: N802
        return [SimpleNamespace(pid=pid, usedGpuMemory=None) for pid in ((os.getpid(), OTHER) if handle == 0 else ())]

    def __getattr__(self, name: str) -> Any:
        return getattr(pynvml, name)


@pytest.fixture(autouse=True)
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Put the stand-in in NVML's place; what is read once per process is read again."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    for module in (machine, machine):
        monkeypatch.setattr(module, "pynvml", Driver())
    for read in (machine.machine, machine._handles):
        read.cache_clear()
    yield
    for read in (machine.machine, machine._handles):
        read.cache_clear()


def test_a_lost_gpu_hides_no_other() -> None:
    assert machine.machine().gpus == (Gpu(0, "H100", 80_000), Gpu(1, "H100", 80_000))
    assert set(machine.NvmlGpus().states()) == {0, 1}
    assert machine.gpu_load() == {
        0: {"gpu_percent": 40.0, "memory_mb": 2_000.0, "clock_mhz": 1980.0},
        1: {"memory_mb": 2_000.0, "clock_mhz": 1980.0},
    }
    assert machine.gpu_memory_of([os.getpid()]) == {0: {os.getpid(): 0.0}}


@pytest.mark.parametrize(
    ("variable", "allowed"),
    [
        (None, {0, 1, 2}),
        ("", set()),
        ("-1", set()),
        ("2,0", {0, 2}),
        ("1, 2", {1, 2}),
        ("0,7,1", {0}),
        ("GPU-b2", {2}),
        ("GPU-aab,GPU-aa", {1}),
    ],
)
def test_the_runners_cuda_visible_devices_limits_what_runs_get(variable: str | None, allowed: set[int]) -> None:
    assert visible_gpus(variable, NAMES) == allowed


def test_the_limit_holds_for_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert [gpu.index for gpu in machine.machine().gpus] == [1]


def test_the_worker_is_no_other_program_on_its_runs_gpu() -> None:
    found = {(sample.source, sample.name): sample.value for sample in Telemetry([]).sample()}
    assert found["gpu0", "other_processes"] == 1.0
    assert ("gpu1", "other_processes") not in found


def test_cuda_is_refused_for_what_computes_on_the_cpu_whatever_the_machine_has() -> None:
    config = experiment("fault_museum").config.check({"device": "cuda"})
    with pytest.raises(DeviceError, match="a run with these settings computes on the CPU"):
        machine.demand(config, machine.machine())
