"""What the processes (or threads) of a run share: weights in two copies, slots for batches, a queue of them, and bells.

Every count here is changed under one lock; a bell has no owner, so a rank that is killed leaves none of them locked.
"""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from engine.data.shared_tensors import shared_zeros
from engine.experiments.dppo.config import DppoConfig
from engine.rl.actor_critic import ActorCritic, Normalizer
from engine.rl.kinds import Kind
from engine.runtime.rank.semaphore import Bell

Lock = AbstractContextManager[Any]
LOOK_S = 0.2
"""So often whoever waits for a bell looks whether the run is over."""
VERSION, STOP, HEAD, DEPTH, FREE, COLLECTED, USED, THROWN, SYNCS, BATCHES, MIXED, ROUND, ROUND_STEPS = range(13)
"""Places in `counts`: published updates; the run is over; the queue's first place, its depth; free slots; env steps
collected, learned from and thrown away; times that players and learner waited for each other; batches learned from, and
those of two policies; the present round of the reader-writer mode and its steps.
"""
COLLECTOR, BORN, GROWN, LENGTH = range(4)
"""Places in a slot's `about`: who filled it; the policy's version at its first and at its last step; its steps."""


@dataclass(frozen=True)
class Batch:
    """One slot's vectors, [T, M] for T steps of M environments: views of shared memory."""

    states: Tensor
    """[T, M, observation], as the policy saw them."""
    raw: Tensor
    """[T, M, observation], as the environments gave them."""
    actions: Tensor
    """[T, M] of choices or [T, M, action]."""
    log_probabilities: Tensor
    values: Tensor
    after: Tensor
    """The value of what came next: 0 where the episode terminated."""
    rewards: Tensor
    ends: Tensor


@dataclass(frozen=True)
class Board:
    """All of it; travels to the ranks as an argument of `Ranks.run`."""

    weights: Tensor
    """[2, P + N]: P parameters and N numbers of the observations' normalizer; the copy that is published is the one at
    version % 2.
    """
    counts: Tensor
    order: Tensor
    free: Tensor
    about: Tensor
    stepping: Tensor
    """int64 [collectors]: since when (monotonic, ns) a collector's environments are in a step, 0 for none."""
    slots: Batch
    """As a batch, with the slot in front of every shape."""
    permits: Bell
    """A ring is leave for one collector to fill one slot."""
    ready: Bell
    """There is something to learn from."""
    parked: Bell
    """A collector has come to its stop (reader-writer mode alone)."""
    go: tuple[Bell, ...]
    """One collector may begin a round (reader-writer mode alone)."""
    live: bool
    """Whether there is but one copy of the weights, the first, which changes under everyone's eyes."""

    @classmethod
    def create(cls, config: DppoConfig, kind: Kind) -> "Board":
        """Return a board with the first policy on it (drawn with the seed) and all slots free."""
        count = max(config.bound, config.collectors) if config.mode != "bounded_queue" else config.bound
        shape = (count, config.batch_steps, config.envs_per_collector)

        whole = torch.int64
        slots = Batch(
            states=shared_zeros(*shape, kind.observation),
            raw=shared_zeros(*shape, kind.observation),
            actions=shared_zeros(*shape, dtype=whole) if kind.choices else shared_zeros(*shape, kind.action),
            log_probabilities=shared_zeros(*shape),
            values=shared_zeros(*shape),
            after=shared_zeros(*shape),
            rewards=shared_zeros(*shape),
            ends=shared_zeros(*shape, dtype=torch.bool),
        )
        board = cls(
            weights=shared_zeros(2, size_of(config, kind)),
            counts=shared_zeros(13, dtype=whole),
            order=shared_zeros(count, dtype=whole),
            free=shared_zeros(count, dtype=whole),
            about=shared_zeros(count, 4, dtype=whole),
            stepping=shared_zeros(config.collectors, dtype=whole),
            slots=slots,
            permits=Bell(),
            ready=Bell(),
            parked=Bell(),
            go=tuple(Bell() for _ in range(config.collectors)),
            live=config.mode == "unlocked",
        )
        board.free.copy_(torch.arange(count))
        board.counts[FREE] = count
        return board

    def batch(self, slot: int, steps: int | None = None) -> Batch:
        """Return one slot's vectors, cut to its first `steps`."""
        return Batch(*(getattr(self.slots, name)[slot, :steps] for name in Batch.__dataclass_fields__))

    def bytes_of(self, slot: int, steps: int) -> int:
        """Return how many bytes so many steps of a slot are."""
        return sum(getattr(self.slots, name)[slot, :steps].nbytes for name in Batch.__dataclass_fields__)

    @property
    def over(self) -> bool:
        """Whether the run is over."""
        return bool(self.counts[STOP])

    def stop(self) -> None:
        """Let everyone come to an end."""
        self.counts[STOP] = 1

    def heard(self, bell: Bell) -> bool:
        """Wait for a bell; return False where the run is over instead."""
        while not self.over:
            if bell.heard(LOOK_S):
                return not self.over
        return False


def size_of(config: DppoConfig, kind: Kind) -> int:
    """Return P + N: the numbers of a policy and of its normalizer."""
    with torch.random.fork_rng(devices=[]):
        return sum(parameter.numel() for parameter in ActorCritic(kind, config.network).parameters()) + Normalizer.size(
            kind.observation
        )


class Weights:
    """The policy on the board, as one rank handles it. There are two copies, so that one is always whole: the one
    published last.
    """

    def __init__(self, board: Board, lock: Callable[[str], Lock]) -> None:
        self._board = board
        self._lock = lock("weights")

    @property
    def version(self) -> int:
        """How many updates were published."""
        return int(self._board.counts[VERSION])

    def publish(self, state: Tensor) -> int:
        """Put a policy on the board; return its version. For one writer. Where weights are live it is there already."""
        version = self.version + 1
        if not self._board.live:
            self._board.weights[version % 2].copy_(state)
        with self._lock:
            self._board.counts[VERSION] = version
        return version

    def take(self, state: Tensor) -> int:
        """Copy the newest whole policy into `state`; return its version. Where weights are live they may change
        meanwhile.
        """
        if self._board.live:
            state.copy_(self._board.weights[0])
            return self.version
        while True:
            with self._lock:
                version = self.version
            state.copy_(self._board.weights[version % 2])
            with self._lock:
                if self.version == version:  # nobody can have begun to write over this copy
                    return version


class Queue:
    """First in, first out, of filled slots; and the slots that are free. One lock guards its counts."""

    def __init__(self, board: Board, lock: Callable[[str], Lock]) -> None:
        self._board = board
        self._counts = board.counts.numpy()
        self._order = board.order.numpy()
        self._free = board.free.numpy()
        self._lock = lock("queue")

    @property
    def depth(self) -> int:
        """How many filled slots wait."""
        return int(self._counts[DEPTH])

    def take_free(self) -> int:
        """Return a slot to fill; raises IndexError where none is free."""
        with self._lock:
            if self._counts[FREE] == 0:
                raise IndexError("no slot is free: more were asked for than permits given")
            self._counts[FREE] -= 1
            return int(self._free[self._counts[FREE]])

    def give_back(self, slot: int) -> None:
        """Let a slot be filled again."""
        with self._lock:
            self._free[self._counts[FREE]] = slot
            self._counts[FREE] += 1

    def put(self, slot: int, steps: int) -> int:
        """Add a filled slot of so many env steps; return the depth."""
        with self._lock:
            self._order[(self._counts[HEAD] + self._counts[DEPTH]) % len(self._order)] = slot
            self._counts[DEPTH] += 1
            self._counts[COLLECTED] += steps
            return int(self._counts[DEPTH])

    def get(self) -> int | None:
        """Return the slot that has waited longest, or None."""
        with self._lock:
            if self._counts[DEPTH] == 0:
                return None
            slot = int(self._order[self._counts[HEAD]])
            self._counts[HEAD] = (self._counts[HEAD] + 1) % len(self._order)
            self._counts[DEPTH] -= 1
            return slot

    def throw_away(self, slot: int, steps: int) -> None:
        """Let a slot be filled again whose env steps go into no batch; count them."""
        with self._lock:
            self._counts[COLLECTED] += steps
            self._counts[THROWN] += steps
        self.give_back(slot)


def silent_ns(board: Board, place: int) -> int:
    """Return for how long a collector's environments have been in one step, 0 where they are not."""
    since = int(board.stepping[place])
    return time.monotonic_ns() - since if since else 0
