"""An update thread that waits for the next batch, without a signal that there will be none."""

import threading
import time
from collections.abc import Callable

from engine.museum.outcome import Broken, ExhibitOutcome

COLLECTORS, BATCHES, STEP_S = 2, 6, 0.02
LOOK_S, SLOT_MS, AFTER, MOST = 0.02, 50, 10, 40
"""The exhibit polls 10 times, 50 ms apart, after the run is over; up to 40 times while a thread is alive."""


class Board:
    """Events shared by learner and collectors."""

    def __init__(self) -> None:
        self.full = threading.Event()
        self.over = threading.Event()


def wrong(seed: int) -> ExhibitOutcome:
    """Wait for a batch."""

    def wait(board: Board) -> bool:
        board.full.wait()
        return True

    return _watched(wait)


def right(seed: int) -> ExhibitOutcome:
    """Wait for a batch or the end of the run, whichever comes first."""

    def wait(board: Board) -> bool:
        while not board.full.wait(LOOK_S):
            if board.over.is_set():
                return False
        return True

    return _watched(wait)


def _watched(wait: Callable[[Board], bool]) -> ExhibitOutcome:
    """Collect a few batches, then end the run; the chart is the number of live threads."""
    board = Board()

    def learn() -> None:
        while not released.is_set() and wait(board):
            board.full.clear()

    def collect() -> None:
        for _ in range(BATCHES):
            time.sleep(STEP_S)
            board.full.set()

    released = threading.Event()
    threads = [
        threading.Thread(target=learn, daemon=True),
        *(threading.Thread(target=collect, daemon=True) for _ in range(COLLECTORS)),
    ]
    for thread in threads:
        thread.start()
    alive, after = [len(threads)], 0
    while after < AFTER or (alive[-1] and after < MOST):
        time.sleep(SLOT_MS / 1000)
        alive.append(sum(thread.is_alive() for thread in threads))
        if not any(thread.is_alive() for thread in threads[1:]):
            board.over.set()
            after += 1
    released.set()
    board.full.set()
    return ExhibitOutcome(
        {"left": float(alive[-1]), "threads": float(len(threads))},
        {SLOT_MS * slot: float(count) for slot, count in enumerate(alive)},
    )


def invariant(outcome: ExhibitOutcome) -> None:
    """The end of the run ends all threads."""
    left = outcome.numbers["left"]
    if left:
        raise Broken(
            f"All threads must exit when the run is over; {left:.0f} still waits for a batch. Signal the end to every "
            "waiting thread, or poll for it."
        )
