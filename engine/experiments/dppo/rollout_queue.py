"""The queue between collectors and learner: a locked count over a ring in shared memory."""

from engine.experiments.dppo.shared_state import Locks, SharedState


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
