"""A counter without a lock: a fault of dppo.

source: The public reader-writer code of DPPO that the note on bounded queues starts from
wrong: All collectors increment one counter with `counter += 1`: read, add, write. Increments by other processes in
    between are lost.
right: Counters shared by several processes are incremented under a lock.
seen: Four real processes count their steps in shared memory. Without a lock the count falls behind the steps, by a
    different number each time; with a lock none is lost.
chart: Steps counted against Steps made
values: lost = Lost (steps); steps = Made (steps)
rule: lost = 0
broken: Every step must be counted; {lost:,.0f} of {steps:,.0f} were lost. Increment the counter under a lock.
guard: tests/experiments/dppo/test_dppo.py::test_the_queue_is_first_in_first_out_and_counts_what_it_holds
"""

import multiprocessing
import os
from collections.abc import Callable
from typing import Any

from engine.museum.exhibit import Outcome, Version
from engine.system.processes import die_with_parent

COLLECTORS, ROUNDS, STEPS = 4, 10, 3000


def wrong(counter: Any, lock: Any, pause: Callable[[], object]) -> None:
    value = counter.value
    pause()  # here a scheduler may let others run
    counter.value = value + 1


def right(counter: Any, lock: Any, pause: Callable[[], object]) -> None:
    with lock:
        counter.value += 1


def measure(seed: int, count: Version) -> Outcome:
    """Let four processes count their steps in one shared number, by rounds; the number after each round is kept.

    In the first step of a round all processes read before any writes; whatever else is lost is chance.
    """
    context = multiprocessing.get_context("fork")
    counter, counts = context.RawValue("q"), context.RawArray("q", ROUNDS)
    given = os.getpid(), count, counter, counts, context.Lock(), context.Barrier(COLLECTORS)
    collectors = [context.Process(target=_collect, args=given) for _ in range(COLLECTORS)]
    for collector in collectors:
        collector.start()
    for collector in collectors:
        collector.join()
    steps = ROUNDS * COLLECTORS * STEPS
    series = {number * COLLECTORS * STEPS: counted for number, counted in enumerate([0, *counts])}
    return Outcome({"lost": steps - counter.value, "steps": steps}, series)


def _collect(parent_pid: int, count: Version, counter: Any, counts: Any, lock: Any, everyone: Any) -> None:
    die_with_parent(parent_pid)
    for number in range(ROUNDS):
        everyone.wait()
        for step in range(STEPS):
            count(counter, lock, (lambda: None) if step else everyone.wait)
        if everyone.wait() == 0:  # one of them
            counts[number] = counter.value
