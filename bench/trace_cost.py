"""What tracing costs: a rank for each operation, runs of small messages and of small steps in all, the worker for each
entry, and the page for a million of them.

Cost of an operation is CPU time; the baseline of a training step is the MNIST net's (batch 64, one thread). Run: python
-m bench.trace_cost
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bench.measuring import save
from bench.recording_cost import training_step_us
from engine.registry import experiment, method
from engine.runtime.rank import fork_server
from engine.runtime.worker.ranks import Ranks
from engine.runtime.worker.sink import MemorySink
from engine.trace.chunk import TraceChunk
from engine.trace.critical_path import critical_path
from engine.trace.downsample import MOST_ANALYSED, arrows, rectangles
from engine.trace.entries import DTYPE
from engine.trace.layout import NO_VERSION, NOBODY, TraceWindow
from engine.trace.ring import TraceMemory, TraceWriter
from engine.trace.ring_reader import TraceReader
from engine.trace.timeline import KIND, RunTrace

OPERATIONS = 20_000
ENTRIES, RANKS, LENGTH_NS = 1_000_000, 8, 2_500_000_000
TIMES = 5


def ms(action: Callable[[], object]) -> float:
    """Return the median wall time of an action in milliseconds."""
    spent = []
    for _ in range(TIMES):
        start = time.perf_counter()
        action()
        spent.append((time.perf_counter() - start) * 1e3)
    return statistics.median(spent)


def operation_us(kind: str) -> tuple[float, float]:
    """Return the CPU microseconds that a rank spends on an operation, and the worker on reading its entry."""
    memory = TraceMemory()
    writer, reader = TraceWriter(memory.memory), TraceReader(memory.memory)
    written, read = [], []
    for _ in range(TIMES):
        start = time.thread_time()
        for number in range(OPERATIONS):
            with (
                writer.operation("rpc", "push", peer=3, number=number)
                if kind == "operation"
                else writer.phase("compute")
            ):
                pass
        written.append((time.thread_time() - start) / OPERATIONS * 1e6)
        start = time.thread_time()
        reader.drain()
        read.append((time.thread_time() - start) / OPERATIONS * 1e6)
    return statistics.median(written), statistics.median(read)


def share_of_a_run(name: str, changes: dict[str, Any], us: float) -> float:
    """Return the share of a run's time on all cores that writing its entries takes, if each takes `us`."""
    config: Any = experiment(name).configure("published", changes | {"threads_per_rank": 1, "device": "cpu"})
    with tempfile.TemporaryDirectory() as folder:
        ranks = Ranks(tuple(config.roles), ("cpu",) * len(config.roles), 1, 0, Path(folder), MemorySink())
        method(name)(config, ranks)
    assert ranks.execution_time_s
    entries = sum(member.trace.written for member in ranks.members)
    return entries * us / 1e6 / ((os.cpu_count() or 1) * ranks.execution_time_s)


def chunks() -> list[TraceChunk]:
    """Return a million operations of eight ranks: a server's and pushes and computing of its trainers."""
    random, found = np.random.default_rng(0), []
    per_rank, part = ENTRIES // RANKS, 5_000
    for rank in range(RANKS):
        for first in range(0, per_rank, part):
            entries, index = np.zeros(part, DTYPE), np.arange(first, first + part)
            odd = index % 2 == 1
            entries["entered_ns"] = index * (LENGTH_NS // per_rank) + random.integers(0, 5_000, part)
            entries["left_ns"] = entries["entered_ns"] + random.integers(1_000, 14_000, part)
            entries["number"], entries["version"] = index // 2, NO_VERSION
            if rank == 0:
                entries["kind"] = np.where(odd, KIND["serve"], KIND["send"])
                entries["name"], entries["peer"], entries["lane"] = np.where(odd, 2, 3), index // 2 % (RANKS - 1) + 1, 1
                entries["left_ns"] = np.where(odd, entries["left_ns"], entries["entered_ns"])
            else:
                entries["kind"] = np.where(odd, KIND["compute"], KIND["communicate"])
                entries["name"], entries["peer"] = np.where(odd, 0, 1), np.where(odd, NOBODY, 0)
            found.append(TraceChunk.of(rank, ["", "push", "request", "answer"], [entries]))
    return found


def zoom(trace: RunTrace, begin: int, end: int) -> None:
    """Do what the page's route does for a stretch."""
    inside = trace.between(begin, end)
    rectangles(inside, begin, end)
    if len(inside) <= MOST_ANALYSED:
        arrows(inside.messages, begin, end)
        critical_path(inside, begin, end)


def main() -> None:
    """Measure and save."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    operation, read = operation_us("operation")
    phase, _ = operation_us("phase")
    step = training_step_us()
    fork_server.start()
    fork_server.wait_until_loaded()
    stored = [(chunk.rank, *chunk.packed(), len(chunk.entries)) for chunk in chunks()]
    window = [TraceWindow(0, LENGTH_NS, "start")]

    def first() -> RunTrace:
        trace = RunTrace.of(window, [TraceChunk.unpacked(*each) for each in stored], [f"rank{n}" for n in range(RANKS)])
        rectangles(trace, 0, LENGTH_NS)
        return trace

    trace = first()
    middle = LENGTH_NS // 2
    found = {
        "operation_us": operation,
        "phase_us": phase,
        "read_us": read,
        "training_step_us": step,
        "share_of_a_step_of_three_phases": 3 * phase / step,
        "share_of_reinforce_over_rpc": share_of_a_run("batched_reinforce", {"observers": 10}, max(operation, phase)),
        "share_of_hogwild": share_of_a_run("hogwild", {"trainers": 2, "epochs": 1}, max(operation, phase)),
        "stored_bytes_per_entry": sum(len(content) for _, _, content, _ in stored) / ENTRIES,
        "first_picture_ms": ms(first),
        "zoom_to_a_tenth_ms": ms(lambda: zoom(trace, middle, middle + LENGTH_NS // 10)),
        "zoom_to_all_that_is_analysed_ms": ms(lambda: zoom(trace, middle, middle + LENGTH_NS // 21)),
        "zoom_to_a_thousandth_ms": ms(lambda: zoom(trace, middle, middle + LENGTH_NS // 1_000)),
    }
    save("trace_cost", found)
    for name, value in found.items():
        print(f"{name:>32} {value:10.3f}")


if __name__ == "__main__":
    main()
