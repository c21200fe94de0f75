"""How a stage of mode rpc accounts for backwards that distributed autograd carries out in two threads at a time."""

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from engine.experiments.pipeline.served import Backwards


class Work:
    """Writes down what begins and ends, and whether two pieces of work were ever on at one time."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.on: list[int] = []
        self.most = 0

    @contextmanager
    def __call__(self, micro_batch: int) -> Iterator[None]:
        self.told.append(f"+{micro_batch}")
        self.on.append(micro_batch)
        self.most = max(self.most, len(self.on))
        yield
        self.told.append(f"-{micro_batch}")
        self.on.remove(micro_batch)


def told(*happened: int) -> str:
    """Return what is written down where micro-batch n's backward begins (n) and ends (-n), in that order."""
    work = Work()
    backwards = Backwards(work)
    for one in happened:
        backwards.begin(one) if one > 0 else backwards.end(-one)
    return " ".join(work.told)


def test_one_after_the_other_are_two_pieces_of_work() -> None:
    assert told(1, -1, 2, -2) == "+1 -1 +2 -2"


def test_one_that_is_left_for_another_goes_on_behind_it() -> None:
    assert told(1, 2, -2, -1) == "+1 -1 +2 -2 +1 -1"


def test_one_that_ends_beside_another_leaves_that_one_its_time() -> None:
    assert told(1, 2, -1, -2) == "+1 -1 +2 -2"
    assert told(1, 2, 3, -2, -3, -1) == "+1 -1 +2 -2 +3 -3 +1 -1"


def test_two_threads_lose_none_and_no_moment_counts_twice() -> None:
    work = Work()
    backwards = Backwards(work)

    def carry_out(first: int) -> None:
        order = random.Random(first)
        for micro_batch in range(first, 4000, 2):
            backwards.begin(micro_batch)
            if order.random() < 0.5:
                backwards.begin(micro_batch + 10_000)
                backwards.end(micro_batch + 10_000)
            backwards.end(micro_batch)

    threads = [threading.Thread(target=carry_out, args=(first,)) for first in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (work.on, work.most) == ([], 1)
    assert {line[1:] for line in work.told} >= {str(micro_batch) for micro_batch in range(4000)}
