"""State shared by the processes (or threads) of a run: two copies of the policy, rollout slots, counts and semaphores.

Every count changes under one lock; semaphores have no owner, so a killed rank leaves none of them locked.
"""

import ctypes
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.data.tensors import shared_zeros
from engine.experiments.dppo.config import DppoConfig
from engine.rl.actor_critic import ActorCritic, Normalizer
from engine.rl.kinds import Kind
from engine.runtime.rank.rank import Semaphore

Lock = AbstractContextManager[Any]
Locks = Callable[[str], Lock]
"""Returns the run's lock of a name."""
FREE, PLAYED, QUEUED, TAKEN = range(4)
"""States of a slot: unused, being filled, waiting for the learner, being trained on."""
LOOK_S = 0.2
"""Seconds between checks for the end of the run while waiting for a semaphore."""


class Counts(ctypes.Structure):
    """The counts of a run, one int64 each, in memory shared by its ranks, also after pickling; made by `over`."""

    version: int
    """Published updates."""
    stopped: int
    """1 when the run is over."""
    queue_depth: int
    begun: int
    """Rollouts begun."""
    steps_collected: int
    """Env steps of whole and of cut batches, like the next one: trained on, queued or discarded."""
    steps_used: int
    """Those trained on."""
    synchronizations: int
    """Times that collectors and learner waited for each other."""
    rollouts: int
    """Rollouts trained on."""
    mixed_rollouts: int
    """Rollouts played with two policy versions."""
    dropped_rollouts: int
    """Rollouts dropped because they were too old or too many (order drop_oldest)."""
    round: int
    """Mode reader_writer: the current round, and its env steps."""
    round_steps: int
    _fields_ = [(name, ctypes.c_int64) for name in __annotations__]

    @classmethod
    def over(cls, memory: Tensor) -> "Counts":
        """Return the counts in `memory`, int64 [13]."""
        counts = cls.from_buffer(memory.numpy().data)
        counts._memory = memory
        return counts

    def __reduce__(self) -> tuple[Any, ...]:
        return Counts.over, (self._memory,)

    def metrics(self, config: DppoConfig) -> dict[str, float]:
        """Return the metrics of the run so far, those of its mode among them."""
        found = {
            "perf/steps_used": 100 * self.steps_used / max(1, self.steps_collected),
            "perf/synchronizations": 1000 * self.synchronizations / max(1, self.steps_collected),
        }
        if config.mode == "unlocked":
            found["perf/mixed_rollouts"] = 100 * self.mixed_rollouts / max(1, self.rollouts)
        if config.mode == "bounded_lag" and config.lag_order == "drop_oldest":
            found["perf/rollouts_dropped"] = float(self.dropped_rollouts)
        return found


class RolloutHeader(ctypes.Structure):
    """The header of a slot, one int64 each."""

    state: int
    """FREE, PLAYED, QUEUED or TAKEN."""
    number: int
    """The rollout's sequence number."""
    collector: int
    first_version: int
    """The policy's version at the rollout's first step."""
    last_version: int
    steps: int
    """Steps per environment."""
    _fields_ = [(name, ctypes.c_int64) for name in __annotations__]


@dataclass(frozen=True)
class Rollout:
    """One slot's tensors, [T, M] for T steps of M environments: views of shared memory."""

    states: Tensor
    """[T, M, observation], as passed to the policy."""
    raw: Tensor
    """[T, M, observation], as returned by the environments."""
    actions: Tensor
    """[T, M] for discrete actions or [T, M, action]."""
    log_probabilities: Tensor
    """Log-probabilities under the policy that acted."""
    values: Tensor
    after: Tensor
    """The value of the next state: 0 if the episode terminated."""
    rewards: Tensor
    ends: Tensor

    def arrays(self) -> Iterator[NDArray[Any]]:
        """Yield the same memory as arrays, in the order of the fields."""
        return (getattr(self, name).numpy() for name in Rollout.__dataclass_fields__)

    @classmethod
    def together(cls, several: Iterable["Rollout"]) -> "Rollout":
        """Return rollouts of equal length side by side; a single one is not copied."""
        first, *others = several
        if not others:
            return first
        parts = [first, *others]
        return cls(*(torch.cat([getattr(each, name) for each in parts], 1) for name in cls.__dataclass_fields__))


@dataclass(frozen=True)
class SharedState:
    """The whole shared state; passed to the ranks as an argument of `Ranks.run`."""

    weights: Tensor
    """[2, P + N]: P parameters and N normalizer values; the published copy is version % 2."""
    counts: Counts
    headers: Tensor
    """int64 [slots, 6]; read by `header`."""
    stepping: Tensor
    """int64 [collectors]: start time (monotonic, ns) of a collector's current environment step, 0 for none."""
    slots: Rollout
    """Like a rollout, with the slot as the first dimension."""
    permits: Semaphore
    """Each release lets one collector fill one slot."""
    ready: Semaphore
    """Released when a batch is ready to train on."""
    parked: Semaphore
    """Released when a collector has stopped (mode reader_writer)."""
    ended: Semaphore
    """Released when a collector has ended."""
    go: tuple[Semaphore, ...]
    """Each release lets one collector begin a rollout (mode reader_writer, and order strict_fifo)."""
    live: bool
    """Whether there is only one copy of the weights, which changes while collectors play (mode unlocked)."""

    @classmethod
    def create(cls, config: DppoConfig, kind: Kind) -> "SharedState":
        """Return a state with all slots free."""
        shape = (config.slots, config.batch_steps, config.envs_per_collector)

        whole = torch.int64
        slots = Rollout(
            states=shared_zeros(*shape, kind.observation),
            raw=shared_zeros(*shape, kind.observation),
            actions=shared_zeros(*shape, dtype=whole) if kind.choices else shared_zeros(*shape, kind.action),
            log_probabilities=shared_zeros(*shape),
            values=shared_zeros(*shape),
            after=shared_zeros(*shape),
            rewards=shared_zeros(*shape),
            ends=shared_zeros(*shape, dtype=torch.bool),
        )
        return cls(
            weights=shared_zeros(2, size_of(config, kind)),
            counts=Counts.over(shared_zeros(len(Counts._fields_), dtype=whole)),
            headers=shared_zeros(config.slots, len(RolloutHeader._fields_), dtype=whole),
            stepping=shared_zeros(config.collectors, dtype=whole),
            slots=slots,
            permits=Semaphore(),
            ready=Semaphore(),
            parked=Semaphore(),
            ended=Semaphore(),
            go=tuple(Semaphore() for _ in range(config.collectors)),
            live=config.mode == "unlocked",
        )

    def header(self, slot: int) -> RolloutHeader:
        """Return one slot's header: a view of shared memory."""
        return RolloutHeader.from_buffer(self.headers[slot].numpy().data)

    def rollout(self, slot: int, steps: int | None = None) -> Rollout:
        """Return one slot's tensors, cut to its first `steps`."""
        return Rollout(*(getattr(self.slots, name)[slot, :steps] for name in Rollout.__dataclass_fields__))

    def bytes_of(self, slot: int, steps: int) -> int:
        """Return the bytes in `steps` steps of a slot."""
        return sum(getattr(self.slots, name)[slot, :steps].nbytes for name in Rollout.__dataclass_fields__)

    @property
    def over(self) -> bool:
        """Whether the run is over."""
        return bool(self.counts.stopped)

    def stop(self) -> None:
        """End the run."""
        self.counts.stopped = 1

    def wait_for(self, bell: Semaphore) -> bool:
        """Wait for a semaphore; return False if the run ends first."""
        while not self.over:
            if bell.acquire(LOOK_S):
                return not self.over
        return False

    def wait_for_collectors(self) -> None:
        """Wait until every collector has ended, after which no count changes."""
        left = len(self.stepping)
        while left:
            left -= self.ended.acquire(LOOK_S)

    def step_ns(self, place: int) -> int:
        """Return the time that a collector's environments have been in the current step, or 0."""
        since = int(self.stepping[place])
        return time.monotonic_ns() - since if since else 0


class RolloutQueue:
    """The slots of rollouts, each free, played, queued or taken. Rollouts are numbered as they begin, unless the caller
    does it, and queued in the order of their numbers.
    """

    def __init__(self, shared: SharedState, locks: Locks) -> None:
        self._shared = shared
        self._counts = shared.counts
        headers = shared.headers.numpy()
        self._states, self._numbers = headers[:, 0], headers[:, 1]
        self._lock = locks("queue")

    @property
    def depth(self) -> int:
        """Number of queued slots."""
        return self._counts.queue_depth

    def slots(self, *states: int) -> list[int]:
        """Return the slots in these states, by number."""
        found = np.flatnonzero(np.isin(self._states, states))
        ordered: list[int] = found[np.argsort(self._numbers[found])].tolist()
        return ordered

    def take_free(self, collector: int, number: int | None = None) -> int:
        """Return a slot for a collector to fill; raises IndexError if none is free."""
        with self._lock:
            slot = next(iter(np.flatnonzero(self._states == FREE).tolist()), None)
            if slot is None:
                raise IndexError("no slot is free: more slots requested than permits released")
            header = self._shared.header(slot)
            header.state, header.collector, header.first_version = PLAYED, collector, self._counts.version
            header.number = self._counts.begun if number is None else number
            self._counts.begun += 1
            return slot

    def put(self, slot: int, steps: int) -> int:
        """Queue a filled slot of `steps` env steps; return the depth."""
        with self._lock:
            self._states[slot] = QUEUED
            self._counts.queue_depth += 1
            self._counts.steps_collected += steps
            return self._counts.queue_depth

    def get(self, may: Callable[[int], bool] = lambda slot: True) -> int | None:
        """Take the first queued slot that `may` be taken, or None."""
        with self._lock:
            slot = next(filter(may, self.slots(QUEUED)), None)
            if slot is not None:
                self._states[slot] = TAKEN
                self._counts.queue_depth -= 1
            return slot

    def free(self, slot: int) -> None:
        """Free a slot."""
        with self._lock:
            self._states[slot] = FREE

    def drop(self, slot: int) -> None:
        """Free a slot that was taken to be dropped, and count it."""
        with self._lock:
            self._states[slot] = FREE
            self._counts.dropped_rollouts += 1

    def discard(self, slot: int, steps: int) -> None:
        """Free a slot that was never queued; count its env steps as collected."""
        with self._lock:
            self._states[slot] = FREE
            self._counts.steps_collected += steps


def size_of(config: DppoConfig, kind: Kind) -> int:
    """Return P + N: the sizes of a policy and of its normalizer."""
    with torch.random.fork_rng(devices=[]):
        return sum(parameter.numel() for parameter in ActorCritic(kind, config.network).parameters()) + Normalizer.size(
            kind.observation
        )


class RunThread(threading.Thread):
    """A thread of a rank besides its main one; it keeps its failure for the main one and ends the run with it."""

    def __init__(self, shared: SharedState, name: str, work: Callable[[], None]) -> None:
        super().__init__(name=name, daemon=True)
        self._shared = shared
        self._work = work
        self._failure: BaseException | None = None

    def run(self) -> None:
        try:
            self._work()
        except BaseException as failure:
            self._failure = failure
            self._shared.stop()

    def check(self) -> None:
        """Raise the thread's failure, if any."""
        if self._failure is not None:
            raise self._failure
