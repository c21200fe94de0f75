"""What recording and tracing cost: a rank's CPU time for a point of each step and for an operation, beside a training
step of the MNIST net (batch 64, one thread); and the page's time for the timeline of a million operations.

Run: python -m bench.costs [--rounds 5]
"""

import argparse
import multiprocessing as mp
import statistics
import time
from collections.abc import Callable
from multiprocessing.connection import Connection

import numpy as np
import torch

from bench.measuring import alternate, ratio, save
from engine.data.nets import mnist_net
from engine.runtime.rank.channel_recorder import ChannelRecorder
from engine.trace.chunk import DTYPE, TraceChunk
from engine.trace.critical_path import critical_path
from engine.trace.layout import NO_VERSION, NOBODY, TraceWindow
from engine.trace.ring import TraceMemory, TraceWriter
from engine.trace.ring_reader import TraceReader
from engine.trace.timeline import KIND, RunTrace
from engine.trace.views import MOST_ANALYSED, arrows, rectangles

STEPS = 400
OPERATIONS = 20_000
ENTRIES, RANKS, LENGTH_NS = 1_000_000, 8, 2_500_000_000
TIMES = 5


def training_step_us() -> float:
    """Return the CPU microseconds of one training step."""
    torch.set_num_threads(1)
    net = mnist_net(0)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.5)
    images, labels = torch.randn(64, 1, 28, 28), torch.randint(10, (64,))
    start = time.process_time()
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = torch.nn.functional.nll_loss(net(images), labels)
        loss.backward()
        optimizer.step()
        loss.item()
    return (time.process_time() - start) / STEPS * 1e6


def recording_us() -> float:
    """Return the CPU microseconds of recording one step at the pace of training, the recorder's thread included."""
    ours, theirs = mp.Pipe()
    reader = mp.get_context("spawn").Process(target=drain, args=(theirs,))
    reader.start()
    theirs.close()
    recorder = ChannelRecorder(ours.send)
    recorder.start(time.monotonic())
    start = time.process_time()
    for step in range(STEPS):
        for phase in ("data", "compute", "update"):
            with recorder.phase(phase):
                pass
        recorder.log({"train/loss": 0.5}, step=step, passes=step / STEPS)
        recorder.progress(step, STEPS)
        time.sleep(0.006)
    recorder.close()
    spent, start = time.process_time() - start, time.process_time()
    for _ in range(STEPS):
        time.sleep(0.006)
    ours.close()
    reader.join()
    return (spent - (time.process_time() - start)) / STEPS * 1e6


def drain(channel: Connection) -> None:
    """Read a channel to its end, as the worker does."""
    try:
        while True:
            channel.recv()
    except EOFError:
        return


def operation_us(phase: bool) -> tuple[float, float]:
    """Return the CPU microseconds that a rank spends on an operation or phase, and the worker on reading its entry."""
    memory = TraceMemory()
    writer, reader = TraceWriter(memory.memory), TraceReader(memory.memory)
    written, read = [], []
    for _ in range(TIMES):
        start = time.thread_time()
        for number in range(OPERATIONS):
            with writer.phase("compute") if phase else writer.operation("rpc", "push", peer=3, number=number):
                pass
        written.append((time.thread_time() - start) / OPERATIONS * 1e6)
        start = time.thread_time()
        reader.drain()
        read.append((time.thread_time() - start) / OPERATIONS * 1e6)
    return statistics.median(written), statistics.median(read)


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


def ms(action: Callable[[], object]) -> float:
    """Return the median wall time of an action in milliseconds."""
    spent = []
    for _ in range(TIMES):
        start = time.perf_counter()
        action()
        spent.append((time.perf_counter() - start) * 1e3)
    return statistics.median(spent)


def main() -> None:
    """Measure, print and save."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=5)
    found = alternate(options.parse_args().rounds, recording=recording_us, training_step=training_step_us)
    operation, read = operation_us(phase=False)
    stored = [(chunk.rank, *chunk.packed(), len(chunk.entries)) for chunk in chunks()]
    window = [TraceWindow(0, LENGTH_NS, "start")]

    def first() -> RunTrace:
        trace = RunTrace.of(window, [TraceChunk.unpacked(*each) for each in stored], [f"rank{n}" for n in range(RANKS)])
        rectangles(trace, 0, LENGTH_NS)
        return trace

    trace, middle = first(), LENGTH_NS // 2
    save(
        "costs",
        {
            "microseconds_per_step": found,
            "recording_share_of_a_step": ratio(found["recording"], found["training_step"]),
            "operation_us": operation,
            "phase_us": operation_us(phase=True)[0],
            "read_us": read,
            "stored_bytes_per_entry": sum(len(content) for _, _, content, _ in stored) / ENTRIES,
            "first_picture_ms": ms(first),
            "zoom_to_50000_ms": ms(lambda: zoom(trace, middle, middle + LENGTH_NS // 20)),
        },
    )


if __name__ == "__main__":
    main()
