"""The four modes: how collectors and learner wait for each other. Each has a collector's side and the learner's.

A collector's rollout:   begin(), then T times, or until count() returns False:  with stepping(): a step;  then finish()
The learner:             for slot in mode.updates(): train on it
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext

from engine.experiments.dppo.config import DppoConfig
from engine.experiments.dppo.shared_state import Lock, Locks, SharedState
from engine.recorder import Recorder
from engine.runtime.rank.rank import Semaphore
from engine.trace.layout import EVERYBODY

LEARNER = 1
"""The learner's rank; the collectors' follow it."""


class Mode(ABC):
    """One rank's (or thread's) side of a mode; `place` is the collector's, from 0."""

    def __init__(self, shared: SharedState, config: DppoConfig, locks: Locks, record: Recorder, place: int = 0) -> None:
        self.shared = shared
        self.counts = shared.counts
        self.config = config
        self.queue = RolloutQueue(shared, locks)
        self.record = record
        self.place = place

    # ---- collector side

    def begin(self) -> bool:
        """Wait for a free slot; return False if the run is over."""
        return self._wait("free slot", LEARNER, self.shared.permits)

    def stepping(self) -> AbstractContextManager[None]:
        """Return the block of one step; most modes do nothing here."""
        return nullcontext()

    def count(self, steps: int) -> bool:
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
            peer = LEARNER + 1 + self.shared.header(slot).collector
            self.record.note("queue", "get", peer=peer, number=slot, value=self.queue.depth)
        return slot

    def _wait(self, what: str, peer: int, bell: Semaphore, times: int = 1) -> bool:
        """Wait for a semaphore; return False if the run ends first."""
        with self.record.phase("wait", what, peer=peer):
            return all(self.shared.wait_for(bell) for _ in range(times))

    @contextmanager
    def _locked(self, locks: Iterable[Lock]) -> Iterator[None]:
        """Hold the locks for the block; only the time until they are held counts as the phase `lock`."""
        with ExitStack() as held:
            with self.record.phase("lock"):
                for lock in locks:
                    held.enter_context(lock)
            yield


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
            self.shared.permits.release(self.config.bound)
            if not self._wait("full queue", EVERYBODY, self.shared.ready):
                return
            while (slot := self._get()) is not None:
                yield slot
                self.queue.free_slot(slot)
            self.counts.synchronizations += 1
        self.shared.stop()

    def progress(self) -> float:
        return self.counts.rollouts / self._batches(self.config.bound)


class Unlocked(Mode):
    """Updates are not synchronized: weights change while collectors act. It demonstrates the resulting errors.

    There are as many permits as batches in the run, so the queue is empty at its end.
    """

    def finish(self, slot: int, length: int) -> None:
        self._put(slot, length)
        self.shared.ready.release()

    def updates(self) -> Iterator[int]:
        total, bound = self._batches(), self.config.bound
        self.shared.permits.release(min(bound, total))
        for number in range(total):
            if not self._wait("batch", EVERYBODY, self.shared.ready):
                return
            slot = self._get()
            assert slot is not None
            yield from self._update(slot)
            self.queue.free_slot(slot)
            if number + bound < total:
                self.shared.permits.release(1)
        self.shared.stop()

    def progress(self) -> float:
        return self.counts.rollouts / self._batches()

    def _update(self, slot: int) -> Iterator[int]:
        yield slot


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

    @contextmanager
    def stepping(self) -> Iterator[None]:
        with ExitStack() as held:
            with self.record.phase("lock"):
                with self._turnstile:
                    pass
                held.enter_context(self._own)
            yield

    def _update(self, slot: int) -> Iterator[int]:
        with self._turnstile, self._locked(self._all):
            yield slot
        self.counts.synchronizations += 1


class ReaderWriter(Mode):
    """One shared step counter; the collector that completes the batch queues its own, and all others discard theirs.

    Then all collectors stop, the learner updates, and the next round begins.
    """

    def __init__(self, shared: SharedState, config: DppoConfig, locks: Locks, record: Recorder, place: int = 0) -> None:
        super().__init__(shared, config, locks, record, place)
        self._counter = locks("counter")
        self._round = -1
        self._mine = False
        self._collected = 0
        """Env steps collected before the current round."""

    def begin(self) -> bool:
        going = self._wait("next round", LEARNER, self.shared.go[self.place])
        self._round += 1  # its own count: the first collector may close a round before the last one begins
        self._mine = False
        return going

    def count(self, steps: int) -> bool:
        with self._locked([self._counter]):
            if self.counts.round != self._round:
                return False
            self.counts.round_steps += steps
            if self.counts.round_steps < self.config.batch_steps * self.config.envs_per_collector:
                return True
            self.counts.round += 1
            self.counts.round_steps = 0
            self._mine = True
            return False

    def finish(self, slot: int, length: int) -> None:
        if self._mine:
            self._put(slot, length)
        else:
            self.queue.discard(slot, length * self.config.envs_per_collector)
        self.shared.parked.release()

    def updates(self) -> Iterator[int]:
        while self.progress() < 1:
            for bell in self.shared.go:
                bell.release()
            if not self._wait("collectors", EVERYBODY, self.shared.parked, self.config.collectors):
                return
            slot = self._get()
            assert slot is not None
            yield slot
            self.queue.free_slot(slot)
            self.counts.synchronizations += 1
            self._collected = self.counts.steps_collected
        self.shared.stop()

    def progress(self) -> float:
        return self._collected / self.config.total_steps


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
