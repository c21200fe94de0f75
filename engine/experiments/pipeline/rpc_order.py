"""Ordering in a stage that is called from several threads: forwards take turns, overlapping backwards count once."""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any


class ForwardTurns:
    """Serializes calls from any thread.

    Those of a batch's micro-batches run in order, because batch-norm's running statistics depend on it.
    """

    def __init__(self, splits: int) -> None:
        self._splits = splits
        self._next = 0
        self._free = threading.Condition()

    @contextmanager
    def of(self, micro_batch: int) -> Iterator[None]:
        """Wait for the turns of all earlier micro-batches, then take the next."""
        with self._free:
            self._free.wait_for(lambda: self._next == micro_batch)
            try:
                yield
            finally:  # a failed call ends its turn too
                self._next = (self._next + 1) % self._splits
                self._free.notify_all()

    @contextmanager
    def any(self) -> Iterator[None]:
        """Take a turn between two others."""
        with self._free:
            yield


class OpenBackwards:
    """The active backwards of a stage; only the one that began last counts as work, so that no time counts twice.

    Distributed autograd may switch between them within a thread, and runs up to two at a time in two threads.
    """

    def __init__(self, work: Callable[[int], AbstractContextManager[None]]) -> None:
        self._work = work
        self._turn = threading.Lock()
        self._open: list[int] = []
        self._now: AbstractContextManager[None] | None = None

    def begin(self, micro_batch: int) -> None:
        """Make the backward of this micro-batch the counted one."""
        with self._turn:
            self._leave()
            self._open.append(micro_batch)
            self._enter()

    def end(self, micro_batch: int) -> None:
        """End this backward; if it was the counted one, the active one that began last is counted again."""
        with self._turn:
            if self._open[-1] != micro_batch:
                self._open.remove(micro_batch)
                return
            self._leave()
            self._open.pop()
            self._enter()

    def _enter(self) -> None:
        if self._open:
            self._now = self._work(self._open[-1])
            self._now.__enter__()

    def _leave(self) -> None:
        if self._now:
            now, self._now = self._now, None
            now.__exit__(None, None, None)


def deepest_node(node: Any) -> Any:
    """Return the node that autograd reaches last: the first layer's, created before all others."""
    found, ways = node, [node]
    seen = {node}
    while ways:
        for inner, _ in ways.pop().next_functions:
            if inner is not None and inner.next_functions and inner not in seen:
                seen.add(inner)
                ways.append(inner)
                found = min(found, inner, key=lambda each: each._sequence_nr())
    return found
