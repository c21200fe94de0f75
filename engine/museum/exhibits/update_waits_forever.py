"""An update that waits forever: a fault of dppo.

source: The public reader-writer code of DPPO that the note on bounded queues starts from
wrong: The update thread waits for the event that a batch is full. After the collectors have ended, the event never
    comes and the program can't exit.
right: Every wait also checks for the end of the run.
seen: Number of live threads. The run is over when both collectors have ended; the published learner keeps waiting.
chart: Live threads against Time (ms)
values: left = Left after the end (threads); threads = Started (threads)
rule: left = 0
broken: All threads must exit when the run is over; {left:.0f} still waits for a batch. Signal the end to every waiting
    thread, or poll for it.
guard: tests/experiments/dppo/test_dppo.py::test_a_stop_in_any_phase_ends_every_process_and_keeps_what_was_recorded
"""

import time
from threading import Event, Thread

from engine.museum.exhibit import Outcome, Version

COLLECTORS, BATCHES, STEP_S = 2, 6, 0.02
LOOK_S, SLOT_MS, AFTER, MOST = 0.02, 50, 10, 40
"""The exhibit polls 10 times, 50 ms apart, after the run is over; up to 40 times while a thread is alive."""


def wrong(full: Event, over: Event) -> bool:
    return full.wait()


def right(full: Event, over: Event) -> bool:
    while not full.wait(LOOK_S):
        if over.is_set():
            return False
    return True


def measure(seed: int, wait: Version) -> Outcome:
    """Collect a few batches, then end the run; the chart is the number of live threads."""
    full, over, released = Event(), Event(), Event()

    def learn() -> None:
        while not released.is_set() and wait(full, over):
            full.clear()

    def collect() -> None:
        for _ in range(BATCHES):
            time.sleep(STEP_S)
            full.set()

    threads = [Thread(target=act, daemon=True) for act in (learn, *[collect] * COLLECTORS)]
    for thread in threads:
        thread.start()
    alive, after = [len(threads)], 0
    while after < AFTER or (alive[-1] and after < MOST):
        time.sleep(SLOT_MS / 1000)
        alive.append(sum(thread.is_alive() for thread in threads))
        if not any(thread.is_alive() for thread in threads[1:]):
            over.set()
            after += 1
    released.set()
    full.set()
    return Outcome({"left": alive[-1], "threads": len(threads)}, {SLOT_MS * slot: n for slot, n in enumerate(alive)})
