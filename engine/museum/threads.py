"""Run one function in several threads at once, and raise the first failure."""

import threading
from collections.abc import Callable

LONGEST_S = 20.0


def crowd(count: int, act: Callable[[int], object]) -> None:
    """Call `act(0)` to `act(count - 1)` in one thread each, started together; join them. Raise the first failure."""
    failures: list[BaseException] = []
    ready = threading.Barrier(count)

    def attempt(place: int) -> None:
        try:
            ready.wait(LONGEST_S)
            act(place)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=attempt, args=(place,), daemon=True) for place in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONGEST_S)
    if failures:
        raise failures[0]
