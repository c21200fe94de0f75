"""The memory of one rank's trace: a header of 64-bit words, then a ring of entries. Torch-free.

Header: counters, exact sums per phase, what each thread is doing now, and the names that entries refer to by number.
Ring: the last `CAPACITY` operations of all threads, 64 bytes each. An entry's sequence number is written last, so that
a reader rejects an entry that is only half written.
"""

from dataclasses import dataclass
from struct import Struct
from typing import NamedTuple

from engine.metrics import PHASES

CAPACITY = 65_536
"""Entries in the ring; a power of two."""
KINDS = (*PHASES, "send", "receive", "barrier", "collective", "rpc", "queue")
"""What an operation is: a phase of its rank, or communication with other ranks."""
NOBODY, EVERYBODY = -1, -2
"""The peer of an operation with no other rank, and of one with all of them."""
NO_VERSION = -1
LATEST_NS = 2**62
"""Times of a stored trace are before this, so that their differences and sums fit a 64-bit word."""
PICKED = 1
"""Flag of an entry that is stored whatever the sampling."""

ENTRY = Struct("<Qqq BBHhBB qqq ii")


class TraceWindow(NamedTuple):
    """A stretch of a run whose operations are stored, in nanoseconds of the machine's monotonic clock."""

    begin_ns: int
    end_ns: int
    reason: str
    """Why: `start`, `sample`, `request` or `end`."""


WORD = 8
HEAD, MOVED, STEP, NAMES, ASKED, SUMS = 0, 1, 2, 3, 4, 8
"""Words: entries written, entries written that are not waits, last logged step, names in use, times that the worker has
asked for the stacks, nanoseconds per phase.
"""
LANES, DEPTH, SLOT = 16, 7, 4
"""Threads and nested operations whose present state is kept, and words per operation: time entered, what it is (kind,
name << 8, peer << 24), number, step.
"""
LANE_WORDS = 1 + DEPTH * SLOT
OPEN = 32
"""First word of the lanes: the depth of the open operations, then their slots."""
NAMES_AT = (OPEN + LANES * LANE_WORDS) * WORD
NAME_BYTES, MOST_NAMES = 48, 256
RING_AT = -(-(NAMES_AT + NAME_BYTES * MOST_NAMES) // 4096) * 4096
SIZE = RING_AT + CAPACITY * ENTRY.size

assert ENTRY.size == 64
assert SUMS + len(PHASES) <= OPEN


def unpacked(word: int) -> tuple[int, int, int]:
    """Return kind, name and peer of an open operation."""
    peer = word >> 24 & 0xFFFF
    return word & 0xFF, word >> 8 & 0xFFFF, peer - 0x10000 if peer >= 0x8000 else peer


# ---- Entries of one rank, compressed already -----------------------------------------------------------------------
# What a run on another machine sends; without NumPy.


@dataclass(frozen=True)
class PackedChunk:
    """What `TraceChunk.packed` returned, with the number of entries; it is checked where it is read."""

    rank: int
    count: int
    lost: int
    names: str
    content: str

    def __len__(self) -> int:
        return self.count

    def packed(self) -> tuple[str, str]:
        """Return the names and the entries as stored."""
        return self.names, self.content
