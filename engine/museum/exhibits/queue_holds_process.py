"""A queue that blocks its process: a fault of dppo.

source: The public reader-writer code of DPPO that the note on bounded queues starts from, with processes instead of
    threads
wrong: Batches go through `multiprocessing.Queue`. A feeder thread writes them into a pipe, and the process can't exit
    before that thread: with a batch larger than the pipe and no reader, never.
right: Batches are stored in slots of shared memory whose counters are protected by a lock; a process that has filled a
    slot can exit.
seen: Time until a real process exits after it has put one batch that no one takes. Small batches fit into the pipe,
    which is why it works in small tests; the exhibit gives up after 2 s.
chart: Time to process exit (s) against Batch (KB)
values: stuck = Processes that did not exit (processes); processes = Processes (processes)
rule: stuck = 0
broken: A process must be able to exit with unread data; {stuck:.0f} of {processes:.0f} collectors were still alive 2 s
    after putting their batch.
guard: tests/experiments/dppo/test_dppo.py::test_a_stop_in_any_phase_ends_every_process_and_keeps_what_was_recorded
"""

import mmap
import multiprocessing
import os
import time
from typing import Any

from engine.museum.exhibit import Outcome, Version
from engine.system.processes import die_with_parent

SIZES = (1, 16, 256, 1024)
"""Batch sizes in KB."""
WATCHED_S, START_S = 2.0, 20.0


def wrong(queue: Any, slot: mmap.mmap, batch: bytes) -> None:
    queue.put(batch)


def right(queue: Any, slot: mmap.mmap, batch: bytes) -> None:
    slot[1 : 1 + len(batch)] = batch
    slot[0] += 1


def measure(seed: int, put: Version) -> Outcome:
    """Start a collector per size, which puts one batch and returns; measure the time until its process exits."""
    context, series, stuck = multiprocessing.get_context("fork"), {}, 0
    for size in SIZES:
        batch, done = bytes(1024 * size), context.Event()
        given = put, context.Queue(), mmap.mmap(-1, 1 + len(batch)), batch
        collector = context.Process(target=_collect, args=(os.getpid(), done, *given))
        collector.start()
        done.wait(START_S)
        began = time.perf_counter()
        collector.join(WATCHED_S)
        series[size] = time.perf_counter() - began
        stuck += collector.is_alive()
        collector.kill()
        collector.join()
    return Outcome({"stuck": stuck, "processes": len(SIZES)}, series)


def _collect(parent_pid: int, done: Any, put: Version, *given: Any) -> None:
    die_with_parent(parent_pid)
    put(*given)
    done.set()
