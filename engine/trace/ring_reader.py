"""The worker's side of a rank's trace: reads it without the rank's help, so also where the rank is stuck or dead.

The rank can write anything into the memory: no value of it is used as a size, a place or a time unchecked.
"""

from dataclasses import dataclass

import numpy as np

from engine.trace.chunk import DTYPE, Entries
from engine.trace.layout import (
    ASKED,
    CAPACITY,
    DEPTH,
    ENTRY,
    HEAD,
    KINDS,
    LANE_WORDS,
    LANES,
    LATEST_NS,
    MOST_NAMES,
    MOVED,
    NAME_BYTES,
    NAMES,
    NAMES_AT,
    OPEN,
    RING_AT,
    SLOT,
    STEP,
    WORD,
    unpacked,
)
from engine.trace.ring import sums_of


@dataclass(frozen=True, slots=True)
class OpenOperation:
    """What a thread of a rank is doing: the time it entered (monotonic clock, ns), and what the entry will say."""

    entered_ns: int
    kind: str
    name: str
    peer: int
    number: int
    step: int
    lane: int


class TraceReader:
    """Reads one rank's memory; `lost` counts entries that were overwritten before they were read."""

    def __init__(self, memory: memoryview) -> None:
        self._memory = memory
        self._words = memory.cast("q")
        self._ring = np.frombuffer(memory, DTYPE, CAPACITY, RING_AT)
        self._read = 0
        self._held_back_at = -1
        self.lost = 0

    @property
    def written(self) -> int:
        """Number of entries that the rank has written."""
        return self._words[HEAD]

    @property
    def has_begun(self) -> bool:
        """Whether the rank's process runs so far that it can write."""
        return self._words[NAMES] > 0

    @property
    def moved(self) -> int:
        """A number that changes with each finished operation that is not a wait."""
        return self._words[MOVED]

    @property
    def step(self) -> int:
        """The rank's last logged step."""
        return self._words[STEP]

    @property
    def asked(self) -> int:
        """How often the rank was asked for its stacks."""
        return self._words[ASKED]

    def ask_for_stacks(self) -> None:
        """Ask the rank to write its stacks."""
        self._words[ASKED] = (self._words[ASKED] + 1) % LATEST_NS

    def sums(self) -> dict[str, float]:
        """Return the seconds of each phase that has any."""
        return sums_of(self._words)

    def names(self) -> list[str]:
        """Return the names by number."""
        found = [""]
        for number in range(1, min(self._words[NAMES], MOST_NAMES)):
            at = NAMES_AT + number * NAME_BYTES
            found.append(
                bytes(self._memory[at : at + NAME_BYTES]).rstrip(b"\0").decode(errors="ignore")
            )  # one that is cut
        return found

    def drain(self) -> Entries:
        """Return the entries written since the last call, in order; count those that were overwritten meanwhile.

        An entry that a thread is just writing is left for the next call, once: if it is still not complete then, its
        rank was stopped while it wrote. Entries that no writer makes are left out and count as lost.
        """
        # a thread that was interrupted may set the head back for a moment
        head = max(self._read, min(self.written, LATEST_NS - 1))
        while self._words[(RING_AT + head % CAPACITY * ENTRY.size) // WORD] == head + 1:
            head += 1
        first = max(self._read, head - CAPACITY)
        self.lost += first - self._read
        found = self._copy(first, head)
        expected = np.arange(first + 1, head + 1, dtype=np.uint64)
        written = found["seq"]
        unfinished = np.flatnonzero(written < expected)
        if len(unfinished) and self._held_back_at != (held := first + int(unfinished[0])):
            self._held_back_at, head = held, held
            count = held - first
            found, expected, written = found[:count], expected[:count], written[:count]
        still = self._ring["seq"][np.arange(first, head) % CAPACITY]
        valid = (written == expected) & (still == expected) & _is_possible(found)
        self.lost += int(len(valid) - valid.sum())
        self._read = head
        whole: Entries = found[valid]
        return whole

    def _copy(self, first: int, end: int) -> Entries:
        copied: Entries = self._ring[np.arange(first, end) % CAPACITY]
        return copied

    def open_operations(self) -> list[OpenOperation]:
        """Return what each thread is doing, the outermost operation first; the main thread's come first."""
        names, found = self.names(), []
        for lane in range(LANES):
            at = OPEN + lane * LANE_WORDS
            for depth in range(min(DEPTH, max(0, self._words[at]))):
                entered, what, number, step = self._words[at + 1 + depth * SLOT : at + 1 + (depth + 1) * SLOT]
                kind, name, peer = unpacked(what)
                if kind < len(KINDS) and name < len(names):
                    found.append(OpenOperation(entered, KINDS[kind], names[name], peer, number, step, lane))
        return found


def _is_possible(entries: Entries) -> Entries:
    """Return which entries have values that can be stored."""
    times = (entries["entered_ns"] >= 0) & (entries["left_ns"] >= entries["entered_ns"])
    known = (entries["kind"] < len(KINDS)) & (entries["lane"] < LANES) & (entries["name"] < MOST_NAMES)
    found: Entries = times & known & (entries["left_ns"] < LATEST_NS)
    return found
