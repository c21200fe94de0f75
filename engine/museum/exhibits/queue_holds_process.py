"""A process that has put data on a multiprocessing queue can't exit until the data is read."""

import multiprocessing
import os
import time
from collections.abc import Callable
from typing import Any

import torch

from engine.museum.outcome import Broken, ExhibitOutcome
from engine.system.processes import die_with_parent

SIZES = (1, 16, 256, 1024)
"""Batch sizes in KB."""
WATCHED_S, START_S = 2.0, 20.0


def wrong(seed: int) -> ExhibitOutcome:
    """Put each batch on a `multiprocessing.Queue`; the learner has stopped and reads none."""
    return _ended(lambda context: context.Queue(), lambda queue, size: queue.put(bytes(1024 * size)))


def right(seed: int) -> ExhibitOutcome:
    """Write each batch into a slot of shared memory and count it."""
    return _ended(lambda context: torch.zeros(1 + 1024 * max(SIZES), dtype=torch.uint8).share_memory_(), _write)  # type: ignore[no-untyped-call]


def _write(ring: torch.Tensor, size: int) -> None:
    memory = ring.numpy()
    memory[1 : 1 + 1024 * size] = 7
    memory[0] += 1


def _ended(make: Callable[[Any], Any], put: Callable[[Any, int], None]) -> ExhibitOutcome:
    """Start a collector per size, which puts one batch and returns; measure the time until its process exits."""
    context, series, stuck = multiprocessing.get_context("fork"), {}, 0
    for size in SIZES:
        shared, done = make(context), context.Event()
        collector = context.Process(target=_collect, args=(os.getpid(), put, shared, size, done))
        collector.start()
        done.wait(START_S)
        began = time.perf_counter()
        collector.join(WATCHED_S)
        series[size] = time.perf_counter() - began
        stuck += collector.is_alive()
        collector.kill()
        collector.join()
    return ExhibitOutcome({"stuck": float(stuck), "processes": float(len(SIZES))}, series)


def _collect(parent_pid: int, put: Callable[[Any, int], None], shared: Any, size: int, done: Any) -> None:
    die_with_parent(parent_pid)
    put(shared, size)
    done.set()


def invariant(outcome: ExhibitOutcome) -> None:
    """A collector that is done can exit."""
    stuck, processes = outcome.numbers["stuck"], outcome.numbers["processes"]
    if stuck:
        raise Broken(
            f"A process must be able to exit with unread data; {stuck:.0f} of {processes:.0f} collectors were still "
            f"alive {WATCHED_S:g} s after putting their batch."
        )
