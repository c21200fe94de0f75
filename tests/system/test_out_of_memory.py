"""A run that fails for want of memory says so, with the limit that its processes have and how to raise it."""

import re
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from engine.doctor.machine import cores_and_memory
from engine.errors import PeerLost, RankFailed, RunFailed
from engine.runtime.rank import process
from engine.runtime.rank.process import RankPlan
from engine.runtime.rank.rank import RunContext
from engine.system.network_isolation import ListenRule
from engine.system.out_of_memory import (
    gpu_of,
    kernel_kills,
    kill_cause,
    limit_met,
    memory_cause,
    memory_limit,
    words_of,
)
from engine.trace.ring import TraceMemory
from tests import rank_functions as functions
from tests.doubles import MemorySink, process_ranks

LIMITED = (
    r"Out of memory\. Each process is limited to [\d.]+ GB of address space \(ulimit -v\)\. Raise it before "
    r"starting the runner"
)


@pytest.fixture
def limited() -> Iterator[None]:
    """Limit this process's address space to more than it will ever use."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (2**40, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.parametrize(
    "text",
    [
        (
            "RuntimeError: [enforce fail at alloc_cpu.cpp:127] . DefaultCPUAllocator: can't allocate memory: you "
            "tried to allocate 8589934592 bytes."
        ),
        "OSError: [Errno 12] Cannot allocate memory",
        "ImportError: std::bad_alloc",
        "MemoryError: ",
        "ImportError: libtorch_cpu.so: failed to map segment from shared object",
        "terminate called after throwing an instance of 'std::bad_alloc'",
    ],
)
def test_memory_is_named_with_its_limit_where_there_is_one(text: str, limited: None) -> None:
    assert memory_cause(text).startswith(
        " Out of memory. Each process is limited to 1099.5 GB of address space (ulimit -v). Raise it before"
    )
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    assert (
        memory_cause(text)
        == " Out of memory. Use fewer ranks, a smaller batch_size or a smaller net, or free memory on the machine."
    )


def test_a_thread_that_cannot_start_counts_as_memory_only_under_a_limit(limited: None) -> None:
    assert memory_limit() in memory_cause("RuntimeError: can't start new thread")
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    assert (memory_cause("RuntimeError: can't start new thread"), memory_limit()) == ("", "")


def test_an_error_that_names_memory_itself_gets_the_limit_alone(limited: None) -> None:
    assert limit_met("RunFailed: stage2 ran out of memory\nRuntimeError: can't allocate memory") == f" {memory_limit()}"


def test_the_doctor_names_a_limit_on_address_space(limited: None) -> None:
    found = cores_and_memory()
    assert found.state == "warn" and memory_limit() in found.sentence


def test_other_failures_say_nothing_of_memory(limited: None) -> None:
    assert [
        memory_cause(text)
        for text in ("", "ValueError: seven is not eight", "CUDA out of memory. Tried to allocate 2.00 GiB")
    ] == ["", "", ""]


def test_the_error_behind_an_error_counts() -> None:
    error = RuntimeError("the batch failed")
    error.__cause__ = MemoryError()
    assert "Out of memory" in memory_cause(words_of(error))


@pytest.mark.processes
@pytest.mark.parametrize("how", ["raise", "abort"])
def test_a_rank_that_meets_its_limit_names_memory_and_the_limit(tmp_path: Path, how: str) -> None:
    with pytest.raises(RankFailed, match=rf"^trainer1 .*{LIMITED if how == 'raise' else 'Out of memory'}"):
        process_ranks(("trainer1",), ("cpu",), 1, 5, tmp_path, MemorySink()).run(functions.take_too_much_memory, how)


FULL = (
    "OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79.15 GiB of "
    "which 10.12 MiB is free. Process 4711 has 79.13 GiB memory in use. Of the allocated memory 78.00 GiB is "
    "allocated by PyTorch."
)
LOST = "AcceleratorError: CUDA error: uncorrectable ECC error encountered\nCUDA kernel errors might be reported later."


@pytest.mark.parametrize(
    ("device", "visible", "gpu"),
    [("cuda:1", "2,5", "GPU 5"), ("cuda", "3", "GPU 3"), ("cuda:1", "", "GPU 1"), ("cpu", "2,5", "")],
)
def test_a_gpu_is_named_by_the_machines_number(device: str, visible: str, gpu: str) -> None:
    assert gpu_of(device, visible) == gpu


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (
            torch.OutOfMemoryError(FULL),
            r"^trainer2 \(rank 1\) ran out of memory on GPU 5: it tried to allocate 20.00 MiB, 10.12 MiB of 79.15 GiB "
            "were free. Lower batch_size",
        ),
        (
            torch.AcceleratorError(LOST),
            r"^trainer2 \(rank 1\) lost GPU 5: uncorrectable ECC error. .* Xid\); reset the GPU",
        ),
        (
            RuntimeError("CUDA error: device-side assert triggered"),
            "^trainer2 raised RuntimeError: CUDA error: device-side",
        ),
        (RunFailed("stage2 ran out of memory."), "^stage2 ran out of memory. The memory is that of GPU 5.$"),
        (PeerLost("ps did not answer: CUDA out of memory."), "^ps did not answer: CUDA out of memory.$"),
    ],
)
def test_what_a_gpu_lacked_or_lost_is_told_with_rank_gpu_and_cure(error: Exception, sentence: str) -> None:
    context = RunContext(("trainer1", "trainer2"), ("cuda:0", "cuda:1"), 1, 0, Path(), visible_gpus="2,5")
    plan = RankPlan(1, context, torch.zeros(2), TraceMemory(), ListenRule(), None)
    if type(error) is RunFailed:
        error.__cause__ = torch.OutOfMemoryError(FULL)
    assert re.search(sentence, process._sentence(plan, error))


def test_a_kill_by_the_kernel_is_told_from_its_counter(tmp_path: Path) -> None:
    table = tmp_path / "vmstat"
    table.write_text("oom_kill 2\npgfault 7\n")
    before = kernel_kills(table)
    assert before == 2 and kernel_kills(tmp_path / "none") is None
    assert kill_cause(before, 2) == kill_cause(None, 2) == ""
    assert kill_cause(before, 3).startswith(" Probably out of memory: the kernel killed a process")
