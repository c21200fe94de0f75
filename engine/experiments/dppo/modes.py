"""The five modes: how collectors and learner wait for each other. Each has a collector's side and the learner's.

A collector's rollout:   slot = begin(), then T times, or until count() returns False:  with stepping(): a step;
                         then finish(slot)
The learner:             for slots in mode.updates(): train on them together
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext

from engine.experiments.dppo.config import DppoConfig
from engine.experiments.dppo.shared_state import PLAYED, QUEUED, Lock, Locks, RolloutQueue, SharedState
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

    def begin(self) -> int | None:
        """Wait until a rollout may begin; return its slot, or None if the run is over."""
        return self.queue.take_free(self.place) if self._may_begin() else None

    def _may_begin(self) -> bool:
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
    def updates(self) -> Iterator[list[int]]:
        """Yield the slots of each update until the run is over."""

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
        number = self.shared.header(slot).number
        depth = self.queue.put(slot, length * self.config.envs_per_collector)
        self.record.note("queue", "put", peer=LEARNER, number=number, value=depth)
        return depth

    def _get(self, may: Callable[[int], bool] = lambda slot: True) -> int | None:
        """Return the first queued slot that `may` be trained on now, or None."""
        slot = self.queue.get(may)
        if slot is not None:
            header = self.shared.header(slot)
            peer = LEARNER + 1 + header.collector
            self.record.note("queue", "get", peer=peer, number=header.number, value=self.queue.depth)
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

    def updates(self) -> Iterator[list[int]]:
        while self.progress() < 1:
            self.shared.permits.release(self.config.bound)
            if not self._wait("full queue", EVERYBODY, self.shared.ready):
                return
            while (slot := self._get()) is not None:
                yield [slot]
                self.queue.free(slot)
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

    def updates(self) -> Iterator[list[int]]:
        size = self.config.batches_per_update
        total, ahead = self._batches(size) // size, self.config.bound // size
        self._permit(min(ahead, total))
        while self.progress() < 1:
            if (slots := self._next(size)) is None:
                return
            yield from self._update(slots)
            for slot in slots:
                self.queue.free(slot)
            if self.counts.version + ahead <= total:
                self._permit(1)
        self.shared.stop()

    def progress(self) -> float:
        return self.counts.rollouts / self._batches(self.config.batches_per_update)

    def _permit(self, updates: int) -> None:
        """Let collectors begin the rollouts of so many more updates."""
        self.shared.permits.release(updates * self.config.batches_per_update)

    def _next(self, size: int) -> list[int] | None:
        """Wait for the slots of the next update; return them by number, or None if the run is over."""
        slots: list[int] = []
        while self.shared.ready.acquire(0):  # of rollouts in the queue, which is looked at first
            pass
        while len(slots) < size:
            slot = self._choose(size - len(slots))
            if slot is not None:
                slots.append(slot)
            elif not self._wait("batch", self._awaited(size - len(slots)), self.shared.ready):
                return None
        # A rollout that the end of the run cut short was queued after that end.
        return None if self.shared.over else sorted(slots, key=lambda slot: self.shared.header(slot).number)

    def _choose(self, left: int) -> int | None:
        """Return one of the `left` slots that the next update still needs, or None."""
        return self._get()

    def _awaited(self, left: int) -> int:
        """Return the rank that the learner waits for, for one of the `left` slots."""
        return EVERYBODY

    def _update(self, slots: list[int]) -> Iterator[list[int]]:
        yield slots


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

    def _update(self, slots: list[int]) -> Iterator[list[int]]:
        with self._turnstile, self._locked(self._all):
            yield slots
        self.counts.synchronizations += 1


class BoundedLag(Unlocked):
    """Collectors play while the learner trains, with a policy at most S = max_lag updates older than the one that an
    update trains.

    Each update trains on as many rollouts as there are collectors. There are permits for the rollouts of 1 + S updates,
    and for those of one more after each update (the rule of AReaL, Fu et al. 2025), so S = 0 is the synchronous method.
    The order, one subclass each, decides which rollouts go into the next update.
    """

    def _may_begin(self) -> bool:
        return self._wait("newer policy", LEARNER, self.shared.permits)

    def _next(self, size: int) -> list[int] | None:
        self.counts.synchronizations += self.queue.depth < size
        return super()._next(size)

    def _lag(self, slot: int) -> int:
        return self.counts.version - self.shared.header(slot).first_version


class StrictFifo(BoundedLag):
    """Rollout k of every collector goes into update k, so each collector waits for the slowest one."""

    def __init__(self, shared: SharedState, config: DppoConfig, locks: Locks, record: Recorder, place: int = 0) -> None:
        super().__init__(shared, config, locks, record, place)
        self._number = place - config.collectors

    def begin(self) -> int | None:
        if not self._wait("newer policy", LEARNER, self.shared.go[self.place]):
            return None
        self._number += self.config.collectors
        return self.queue.take_free(self.place, self._number)

    def _permit(self, updates: int) -> None:
        for bell in self.shared.go:
            bell.release(updates)

    def _choose(self, left: int) -> int | None:
        due = self._due(left)
        return self._get(lambda slot: self.shared.header(slot).number == due)

    def _awaited(self, left: int) -> int:
        return LEARNER + 1 + self._due(left) % self.config.collectors

    def _due(self, left: int) -> int:
        return self.counts.rollouts + self.config.collectors - left


class Windowed(BoundedLag):
    """Take rollouts as they are completed, unless an older one could then not be trained on in time.

    Of the rollouts that are played or queued, in the order of their numbers and from 0, number k can wait for at most
    k / N updates of N rollouts, where the update that takes rollouts now counts as far as it needs more of them.
    """

    def _choose(self, left: int) -> int | None:
        return self._get(lambda slot: self._leaves_time(slot, left - 1))

    def _leaves_time(self, chosen: int, left: int) -> bool:
        size, most = self.config.collectors, self.config.max_lag
        others = [slot for slot in self.queue.slots(PLAYED, QUEUED) if slot != chosen]
        return most is None or all(
            self._lag(slot) + (place + size - left) // size <= most for place, slot in enumerate(others)
        )

    def _awaited(self, left: int) -> int:
        played = self.queue.slots(PLAYED)
        return LEARNER + 1 + self.shared.header(played[0]).collector if self.queue.depth and played else EVERYBODY


class DropOldest(BoundedLag):
    """Collectors never wait. Rollouts that are too old when an update needs some are dropped; so is the oldest one when
    the queue is full.
    """

    _collected = 0
    """Env steps collected before the current update."""

    def _may_begin(self) -> bool:
        return not self.shared.over

    def _permit(self, updates: int) -> None:
        pass

    def finish(self, slot: int, length: int) -> None:
        super().finish(slot, length)
        self._drop(lambda oldest: self.queue.depth > self.config.bound)

    def _choose(self, left: int) -> int | None:
        self._drop(self._is_too_old)
        return self._get(lambda slot: not self._is_too_old(slot))

    def _is_too_old(self, slot: int) -> bool:
        return self.config.max_lag is not None and self._lag(slot) > self.config.max_lag

    def _drop(self, is_dropped: Callable[[int], bool]) -> None:
        """Drop the queued rollouts of which that is so, the oldest first."""
        while (slot := self.queue.get(is_dropped)) is not None:
            header = self.shared.header(slot)
            peer = LEARNER + 1 + header.collector
            self.record.note("queue", "drop", peer=peer, number=header.number, value=self._lag(slot))
            self.queue.drop(slot)

    def _update(self, slots: list[int]) -> Iterator[list[int]]:
        yield slots
        self._collected = self.counts.steps_collected

    def progress(self) -> float:
        return self._collected / self.config.total_steps


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

    def _may_begin(self) -> bool:
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

    def updates(self) -> Iterator[list[int]]:
        while self.progress() < 1:
            for bell in self.shared.go:
                bell.release()
            if not self._wait("collectors", EVERYBODY, self.shared.parked, self.config.collectors):
                return
            slot = self._get()
            assert slot is not None
            yield [slot]
            self.queue.free(slot)
            self.counts.synchronizations += 1
            self._collected = self.counts.steps_collected
        self.shared.stop()

    def progress(self) -> float:
        return self._collected / self.config.total_steps


_MODES: dict[str, type[Mode]] = {
    "bounded_queue": BoundedQueue,
    "update_locked": UpdateLocked,
    "reader_writer": ReaderWriter,
    "unlocked": Unlocked,
}
_ORDERS: dict[str, type[Mode]] = {"strict_fifo": StrictFifo, "windowed": Windowed, "drop_oldest": DropOldest}


def mode_of(config: DppoConfig) -> type[Mode]:
    """Return the class of a config's mode; of bounded_lag, that of its order."""
    return _ORDERS[config.lag_order] if config.mode == "bounded_lag" else _MODES[config.mode]
