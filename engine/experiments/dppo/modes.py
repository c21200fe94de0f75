"""The four modes: how collectors and learner wait for each other. Each has a collector's side and the learner's.

A collector's rollout:   begin(), then (before(), a step, after()) T times or until after() returns False, then finish()
The learner:             for slot in mode.updates(): train on it
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from engine.experiments.dppo.config import DppoConfig
from engine.experiments.dppo.shared_state import Locks, SharedState
from engine.recorder import Recorder
from engine.trace.layout import EVERYBODY

LEARNER = 1
"""The learner's rank; the collectors' follow it."""


class Mode(ABC):
    """One rank's (or thread's) side of a mode; `place` is the collector's, from 0."""

    def __init__(self, shared: SharedState, config: DppoConfig, locks: Locks, record: Recorder, place: int = 0) -> None:
        self.shared = shared
        self.config = config
        self.queue = RolloutQueue(shared, locks)
        self.record = record
        self.place = place

    # ---- collector side

    def begin(self) -> bool:
        """Wait for a free slot; return False if the run is over."""
        with self.record.phase("wait", "free slot", peer=LEARNER):
            return self.shared.wait_for(self.shared.permits)

    def before(self) -> None:  # noqa: B027  (most modes do nothing here)
        """Called before each step."""

    def after(self, steps: int) -> bool:
        """Count `steps` env steps; return False if the rollout ends now."""
        return True

    @abstractmethod
    def finish(self, slot: int, length: int) -> None:
        """Queue a filled slot: `length` steps of every environment."""

    # ---- learner side

    @abstractmethod
    def updates(self) -> Iterator[int]:
        """Yield slots to train on until the run is over."""

    @abstractmethod
    def progress(self) -> float:
        """Return the fraction of the run completed before the current batch: 0 for the first one, below 1 for the last
        one.
        """

    def _batches(self, at_once: int = 1) -> int:
        """Return the number of batches that hold the run's steps if they are collected `at_once` at a time."""
        size = at_once * self.config.batch_steps * self.config.envs_per_collector
        return at_once * -(-self.config.total_steps // size)

    def _put(self, slot: int, length: int) -> int:
        """Queue a filled slot; return the depth."""
        self.record.exchanged(self.shared.bytes_of(slot, length))
        depth = self.queue.put(slot, length * self.config.envs_per_collector)
        self.record.note("queue", "put", peer=LEARNER, number=slot, value=depth)
        return depth

    def _get(self) -> int | None:
        """Return the oldest queued slot, or None."""
        slot = self.queue.get()
        if slot is not None:
            self.record.note(
                "queue",
                "get",
                peer=LEARNER + 1 + self.shared.header(slot).collector,
                number=slot,
                value=self.queue.depth,
            )
        return slot

    def _permit(self, count: int) -> None:
        self.shared.permits.release(count)

    def _synchronized(self) -> None:
        self.shared.counts.synchronizations += 1


class BoundedQueue(Mode):
    """Collectors play until the queue holds `bound` batches, then wait; the learner trains until it is empty, then
    waits.

    A permit is a place in the queue. All permits are released again when the queue is empty, so the two sides
    synchronize once per `bound` batches.
    """

    def finish(self, slot: int, length: int) -> None:
        if self._put(slot, length) == self.config.bound:
            self.shared.ready.release()

    def updates(self) -> Iterator[int]:
        while self.progress() < 1:
            self._permit(self.config.bound)
            if not self._full():
                return
            while (slot := self._get()) is not None:
                yield slot
                self.queue.free_slot(slot)
            self._synchronized()
        self.shared.stop()

    def progress(self) -> float:
        return self.shared.counts.rollouts / self._batches(self.config.bound)

    def _full(self) -> bool:
        with self.record.phase("wait", "full queue", peer=EVERYBODY):
            return self.shared.wait_for(self.shared.ready)


class Unlocked(Mode):
    """Updates are not synchronized: weights change while collectors act. It demonstrates the resulting errors.

    There are as many permits as batches in the run, so the queue is empty at its end.
    """

    def finish(self, slot: int, length: int) -> None:
        self._put(slot, length)
        self.shared.ready.release()

    def updates(self) -> Iterator[int]:
        total, bound = self._batches(), self.config.bound
        self._permit(min(bound, total))
        for number in range(total):
            if not self._one_is_there():
                return
            slot = self._get()
            assert slot is not None
            yield from self._update(slot)
            self.queue.free_slot(slot)
            if number + bound < total:
                self._permit(1)
        self.shared.stop()

    def progress(self) -> float:
        return self.shared.counts.rollouts / self._batches()

    def _update(self, slot: int) -> Iterator[int]:
        yield slot

    def _one_is_there(self) -> bool:
        with self.record.phase("wait", "batch", peer=EVERYBODY):
            return self.shared.wait_for(self.shared.ready)


class UpdateLocked(Unlocked):
    """Only the update is exclusive: it waits until every collector is between two steps, and blocks them there.

    A collector passes the turnstile before each step and holds its own lock during it; the learner holds all of these
    locks during an update.
    """

    def __init__(self, shared: SharedState, config: DppoConfig, locks: Locks, record: Recorder, place: int = 0) -> None:
        super().__init__(shared, config, locks, record, place)
        self._turnstile = locks("turnstile")
        self._own = locks(f"step{place}")
        self._all = [locks(f"step{each}") for each in range(config.collectors)]

    def before(self) -> None:
        with self.record.phase("lock"):
            with self._turnstile:
                pass
            self._own.__enter__()

    def after(self, steps: int) -> bool:
        self._own.__exit__(None, None, None)
        return True

    def _update(self, slot: int) -> Iterator[int]:
        held: list[Any] = []
        with self._turnstile:
            try:
                with self.record.phase("lock"):
                    for lock in self._all:
                        lock.__enter__()
                        held.append(lock)
                yield slot
            finally:
                for lock in held:
                    lock.__exit__(None, None, None)
        self._synchronized()


class ReaderWriter(Mode):
    """One shared step counter; the collector that completes the batch queues its own, and all others discard theirs.

    Then all collectors stop, the learner updates, and the next round begins.
    """

    def __init__(self, shared: SharedState, config: DppoConfig, locks: Locks, record: Recorder, place: int = 0) -> None:
        super().__init__(shared, config, locks, record, place)
        self._counter = locks("counter")
        self._counts = shared.counts
        self._round = -1
        self._mine = False
        self._collected = 0
        """Env steps collected before the current round."""

    def begin(self) -> bool:
        with self.record.phase("wait", "next round", peer=LEARNER):
            going = self.shared.wait_for(self.shared.go[self.place])
        self._round += 1  # its own count: the first collector may close a round before the last one begins
        self._mine = False
        return going

    def after(self, steps: int) -> bool:
        with self.record.phase("lock"):
            self._counter.__enter__()
        try:
            if self._counts.round != self._round:
                return False
            self._counts.round_steps += steps
            if self._counts.round_steps < self.config.batch_steps * self.config.envs_per_collector:
                return True
            self._counts.round += 1
            self._counts.round_steps = 0
            self._mine = True
            return False
        finally:
            self._counter.__exit__(None, None, None)

    def finish(self, slot: int, length: int) -> None:
        if self._mine:
            self._put(slot, length)
        else:
            self.queue.discard(slot, length * self.config.envs_per_collector)
        self.shared.parked.release()

    def updates(self) -> Iterator[int]:
        self._let_go()
        while self._all_parked():
            slot = self._get()
            assert slot is not None
            yield slot
            self.queue.free_slot(slot)
            self._synchronized()
            self._collected = self._counts.steps_collected
            if self.progress() >= 1:
                self.shared.stop()
                return
            self._let_go()

    def progress(self) -> float:
        return self._collected / self.config.total_steps

    def _let_go(self) -> None:
        for bell in self.shared.go:
            bell.release()

    def _all_parked(self) -> bool:
        with self.record.phase("wait", "collectors", peer=EVERYBODY):
            return all(self.shared.wait_for(self.shared.parked) for _ in range(self.config.collectors))


MODES: dict[str, type[Mode]] = {
    "bounded_queue": BoundedQueue,
    "update_locked": UpdateLocked,
    "reader_writer": ReaderWriter,
    "unlocked": Unlocked,
}


# ---- The queue between collectors and learner: a locked count over a ring in shared memory -------------------------


class RolloutQueue:
    """Filled slots in first-in, first-out order, and free slots, under one lock."""

    def __init__(self, shared: SharedState, locks: Locks) -> None:
        self._shared = shared
        self._counts = shared.counts
        self._order = shared.order.numpy()
        self._free = shared.free.numpy()
        self._lock = locks("queue")

    @property
    def depth(self) -> int:
        """Number of filled slots."""
        return self._counts.queue_depth

    def take_free(self) -> int:
        """Return a slot to fill; raises IndexError if none is free."""
        with self._lock:
            if self._counts.free_slots == 0:
                raise IndexError("no slot is free: more slots requested than permits released")
            self._counts.free_slots -= 1
            return int(self._free[self._counts.free_slots])

    def free_slot(self, slot: int) -> None:
        """Free a slot."""
        with self._lock:
            self._free[self._counts.free_slots] = slot
            self._counts.free_slots += 1

    def put(self, slot: int, steps: int) -> int:
        """Add a filled slot of `steps` env steps; return the depth."""
        with self._lock:
            self._order[(self._counts.queue_head + self._counts.queue_depth) % len(self._order)] = slot
            self._counts.queue_depth += 1
            self._counts.steps_collected += steps
            return self._counts.queue_depth

    def get(self) -> int | None:
        """Return the oldest filled slot, or None."""
        with self._lock:
            if self._counts.queue_depth == 0:
                return None
            slot = int(self._order[self._counts.queue_head])
            self._counts.queue_head = (self._counts.queue_head + 1) % len(self._order)
            self._counts.queue_depth -= 1
            return slot

    def discard(self, slot: int, steps: int) -> None:
        """Free a slot without training on it; count its env steps as collected."""
        with self._lock:
            self._counts.steps_collected += steps
        self.free_slot(slot)
