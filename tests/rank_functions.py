"""What ranks do in tests; here because a rank's process must be able to import its function."""

import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from engine.errors import DataError
from engine.runtime.worker.ranks import Rank
from engine.system.network_isolation import network_id


def in_each_case(rank: Rank, function: Callable[..., None], cases: Sequence[tuple[Any, ...]]) -> None:
    """Call `function(rank, *case)` for one case after another in one start of the ranks, each in a folder
    of its own.
    """
    run = rank.folder
    for number, case in enumerate(cases):
        rank.folder = run / str(number)
        rank.folder.mkdir(exist_ok=True)
        rank.barrier("in the case's folder")
        function(rank, *case)
        rank.start = lambda zero: None  # the recorder's clock runs already
        rank.barrier("all have left the case")


def log_steps(rank: Rank, steps: int, networks: torch.Tensor | None = None) -> None:
    """Log so many losses, and leave the number of this rank's network namespace."""
    if networks is not None:
        networks[rank.index] = network_id()
    rank.ready()
    for step in range(1, steps + 1):
        rank.recorder.log({"train/loss": 1.0 / step}, step=step, passes=step / steps)
        rank.recorder.progress(step, steps)


class GpusOnArrival:
    """Arrives in a rank as the GPUs that the process sees at that moment, when a GPU tensor would initialize CUDA."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.getenv, ("CUDA_VISIBLE_DEVICES", "all")


def note_gpus(rank: Rank, on_arrival: str) -> None:
    """Leave which GPUs this rank saw, and whether the process that it was forked from had started CUDA."""
    rank.ready()
    started = torch._C._cuda_isInBadFork() if hasattr(torch._C, "_cuda_isInBadFork") else False
    (rank.folder / rank.role).write_text(f"{on_arrival} {os.environ['CUDA_VISIBLE_DEVICES']} {started}")


def allocate_often(rank: Rank, faults: torch.Tensor) -> None:
    rank.ready()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        torch.empty(16 * 2**20).fill_(1.0)
    faults[rank.index] = (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / 5


def fill(rank: Rank, numbers: torch.Tensor, value: float) -> None:
    rank.ready()
    numbers.fill_(value)


def write_own_cell(rank: Rank, cells: torch.Tensor) -> None:
    rank.ready()
    cells[rank.index] = rank.context.seed + rank.context.place_of(rank.index)
    rank.barrier("written")
    assert int(cells.count_nonzero()) == rank.world, f"{rank.role} sees {cells.tolist()}"


def count_under_lock(rank: Rank, counter: torch.Tensor, times: int) -> None:
    lock = rank.lock("counter")
    rank.ready()
    for _ in range(times):
        with lock:
            value = int(counter[0])
            time.sleep(0)
            counter[0] = value + 1


def work_in_phases(rank: Rank) -> None:
    rank.ready()
    with rank.recorder.phase("compute"):
        time.sleep(0.2)
        with rank.recorder.phase("wait"):
            time.sleep(0.3)
    time.sleep(0.1)


def say(rank: Rank, *details: str) -> None:
    rank.ready()
    for detail in details:
        rank.say("note", detail)
        rank.barrier(detail)


def say_and_raise(rank: Rank, role: str) -> None:
    rank.ready()
    if rank.role == role:
        sys.stdout.write("about to raise\n")
        raise ValueError("seven is not eight")
    time.sleep(600)


def raise_engine_error(rank: Rank) -> None:
    raise DataError("The data set 'moons' is not at hand.")


def raise_one_after_another(rank: Rank) -> None:
    """The last rank raises, then each when the one after it has died: its lock is free then."""
    rank.lock(f"alive{rank.index}").__enter__()
    rank.ready()
    if rank.index < rank.world - 1:
        rank.lock(f"alive{rank.index + 1}").__enter__()
    raise ValueError(f"{rank.role} failed")


def die(rank: Rank, role: str, number: int = signal.SIGKILL) -> None:
    rank.ready()
    if rank.role == role:
        sys.stdout.write("last words\n")
        sys.stdout.flush()
        os.kill(os.getpid(), number)
    time.sleep(600)


def leave(rank: Rank, role: str, code: int = 0) -> None:
    rank.ready()
    if rank.role == role:
        os._exit(code)
    time.sleep(600)


def resist(rank: Rank) -> None:
    """The first rank ignores SIGTERM, the second stops itself, the third fails."""
    if rank.index == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    rank.ready()
    if rank.index == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    if rank.index == 2:
        time.sleep(0.3)
        raise ValueError("it is over")
    time.sleep(600)


def sleep(rank: Rank, pid_folder: Path) -> None:
    (pid_folder / f"{rank.role}.pid").write_text(str(os.getpid()))
    rank.ready()
    time.sleep(600)


def flood(rank: Rank, points: int) -> None:
    rank.ready()
    for step in range(points):
        rank.recorder.log({"a": step, "b": -step}, step=step)


def kill_the_fork_server(rank: Rank, number: int) -> None:
    """Kill the process that all ranks were forked from; the kernel kills them with it."""
    rank.ready()
    if rank.index == 0:
        os.kill(os.getppid(), number)
    time.sleep(60)


def take_too_much_memory(rank: Rank, how: str) -> None:
    """Allocate more than a limit allows: in torch, or in C++ code whose exception ends the process."""
    rank.ready()
    resource.setrlimit(resource.RLIMIT_AS, (2**33, resource.RLIM_INFINITY))
    if how == "raise":
        torch.empty(2**33)
    os.write(2, b"terminate called after throwing an instance of 'std::bad_alloc'\n")
    os.abort()


def print_much(rank: Rank, megabytes: int) -> None:
    """Print so many megabytes, with a first and a last line of their own."""
    print("the first line")
    for _ in range(megabytes):
        print("x" * (1 << 20))
    print("the last line")
