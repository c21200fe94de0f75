"""Detect out-of-memory errors and failed GPUs in a process's output, with the limit and the cure. Torch-free."""

import re
import resource
from pathlib import Path

LIMITS = ((resource.RLIMIT_AS, "ulimit -v"), (resource.RLIMIT_DATA, "ulimit -d"))
_OUT_OF_MEMORY = re.compile(
    r"can(?:no|')t allocate memory|bad_alloc|\bMemoryError\b|failed to map segment", re.IGNORECASE
)
_NO_THREAD = re.compile(r"can't start new thread|pthread_create failed|Thread creation failed", re.IGNORECASE)
"""Caused by limited address space for the thread's stack, otherwise by the number of threads."""

_GPU_FULL = re.compile(
    r"CUDA out of memory|CUDA error: out of memory|CU(BLAS|DNN|SOLVER)_STATUS_ALLOC_FAILED|cuda malloc failed",
    re.IGNORECASE,
)
_TRIED = re.compile(r"Tried to allocate ([\d.]+ (?:bytes|[KMGT]iB))")
_FREE = re.compile(r"total capacity of ([\d.]+ [KMGT]iB) of which ([\d.]+ (?:bytes|[KMGT]iB)) is free")
_GPU_FAILED = re.compile(
    r"uncorrectable (ECC|NVLink) error|unspecified launch failure|hardware (stack )?error|GPU is lost"
    r"|fallen off the bus|no CUDA-capable device|busy or unavailable|CUDA error: unknown error",
    re.IGNORECASE,
)
"""Texts of CUDA errors that a fault of the GPU, its driver or another program causes, not the run's code."""


_KILLS = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)


def kernel_kills(table: Path = Path("/proc/vmstat")) -> int | None:
    """Return how many processes of the machine the kernel has killed because memory ran out; None if it doesn't say."""
    try:
        found = _KILLS.search(table.read_text())
    except OSError:
        return None
    return int(found[1]) if found else None


def kill_cause(before: int | None, after: int | None) -> str:
    """Return that memory ran out, with the cure and a leading space, if the kernel's count of such kills has risen;
    empty otherwise.
    """
    if before is None or after is None or after <= before:
        return ""
    return (
        " Probably out of memory: the kernel killed a process of this machine meanwhile. Use fewer ranks, a smaller "
        "batch_size or a smaller net."
    )


def gpu_of(device: str, visible: str) -> str:
    """Return the machine's GPU behind torch's `device` such as `cuda:1`, as `GPU 3`; empty for a CPU.

    `visible` is the process's CUDA_VISIBLE_DEVICES, from which torch counts.
    """
    kind, _, index = device.partition(":")
    if kind != "cuda":
        return ""
    numbers, place = visible.split(","), int(index or 0)
    return f"GPU {numbers[place] if visible and place < len(numbers) else place}"


def gpu_failure(text: str, gpu: str) -> str:
    """Return what happened to `gpu`, as the rest of a sentence about its process, with the cure; empty if `text` shows
    no failure of a GPU.
    """
    where = gpu or "its GPU"
    if _GPU_FULL.search(text):
        tried, free = _TRIED.search(text), _FREE.search(text)
        numbers = [
            *([f"it tried to allocate {tried[1]}"] if tried else []),
            *([f"{free[2]} of {free[1]} were free"] if free else []),
        ]
        return (
            f"ran out of memory on {where}{': ' if numbers else ''}{', '.join(numbers)}. Lower batch_size, use a "
            "smaller net or fewer ranks per GPU, or wait until other programs have left the GPU."
        )
    if found := _GPU_FAILED.search(text):
        return (
            f"lost {where}: {found[0]}. Its driver's log has the reason (dmesg, lines with Xid); reset the GPU "
            "(nvidia-smi --gpu-reset) or restart the machine, then launch the run again."
        )
    return ""


def gpu_met(text: str, gpu: str) -> str:
    """Return only which GPU failed, with a leading space, to follow a sentence that says the rest."""
    if not gpu or not gpu_failure(text, gpu):
        return ""
    return f" The memory is that of {gpu}." if _GPU_FULL.search(text) else f" It {gpu_failure(text, gpu)}"


def memory_cause(text: str) -> str:
    """Return the message that memory ran out, with limit and cure and a leading space; empty if `text` shows no sign of
    it.
    """
    limit = limit_met(text)
    if not limit and not _OUT_OF_MEMORY.search(text):
        return ""
    return (
        f" Out of memory.{f'{limit} Otherwise use' if limit else ' Use'} fewer ranks, a smaller batch_size or a "
        "smaller net, or free memory on the machine."
    )


def limit_met(text: str) -> str:
    """Return only the limit, if there is one and `text` shows that memory ran out."""
    limit = memory_limit()
    return f" {limit}" if limit and (_OUT_OF_MEMORY.search(text) or _NO_THREAD.search(text)) else ""


def memory_limit() -> str:
    """Return the memory limit of this process and its children, and how to raise it; empty without one."""
    for kind, name in LIMITS:
        soft = resource.getrlimit(kind)[0]
        if soft != resource.RLIM_INFINITY:
            return (
                f"Each process is limited to {soft / 1e9:.1f} GB of address space ({name}). Raise it before "
                f"starting the runner ({name} unlimited, or LimitAS=infinity in its systemd unit), and "
                "restart the runner."
            )
    return ""


def words_of(error: BaseException) -> str:
    """Return the types and messages of an error and its causes."""
    before = error.__cause__ or error.__context__
    return f"{type(error).__name__}: {error}" + (f"\n{words_of(before)}" if before else "")
