"""Copies of a rank's trace memory from its node to the worker's, by changed parts, with times of the worker's clock."""

import numpy as np

from engine.runtime.nodes.messages import TracePart
from engine.trace.entries import DTYPE
from engine.trace.layout import (
    ASKED,
    CAPACITY,
    DEPTH,
    ENTRY,
    HEAD,
    LANE_WORDS,
    LANES,
    NAMES,
    NAMES_AT,
    OPEN,
    RING_AT,
    SIZE,
    SLOT,
    WORD,
)

BLOCK = 64
"""Entries of a block."""
BLOCK_BYTES = BLOCK * ENTRY.size
BEFORE = 256
"""Entries before the newest one of the last look that are compared again: threads may still have been writing them."""


class TraceSource:
    """The parts of a trace memory that have changed since the last look."""

    def __init__(self, memory: memoryview) -> None:
        self._memory = memory
        self._sent = bytearray(SIZE)
        self._looked_to = 0

    def changes(self) -> TracePart | None:
        """Return the changed parts for rank 0 of a message, None if there are none. The header is read first, so that
        it counts no entry that the blocks lack, and its names again afterwards, so that no entry lacks its name.
        """
        header = bytes(self._memory[:RING_AT])
        if header == self._sent[:RING_AT]:
            return None
        head = int.from_bytes(header[HEAD * WORD : (HEAD + 1) * WORD], "little")
        first = max(0, self._looked_to - BEFORE, head - CAPACITY)
        blocks = {}
        for number in {place % CAPACITY // BLOCK for place in range(first, head + BLOCK, BLOCK)} | {
            head % CAPACITY // BLOCK
        }:
            at = RING_AT + number * BLOCK_BYTES
            content = bytes(self._memory[at : at + BLOCK_BYTES])
            if content != self._sent[at : at + BLOCK_BYTES]:
                blocks[number] = content
                self._sent[at : at + BLOCK_BYTES] = content
        self._sent[:RING_AT] = header
        self._looked_to = head
        return TracePart(0, _with_names(header, self._memory), blocks)


def _with_names(header: bytes | memoryview, names: bytes | memoryview) -> bytes:
    """Return a header with the names of another one."""
    count = slice(NAMES * WORD, (NAMES + 1) * WORD)
    found = bytearray(header[:NAMES_AT]) + bytes(names[NAMES_AT:RING_AT])
    found[count] = names[count]
    return bytes(found)


def write(memory: memoryview, part: TracePart, shift_ns: int) -> None:
    """Bring the worker's copy up to date: names, then the entries that use them, then their count; `shift_ns` is what
    the worker's clock is ahead of the node's.
    """
    memory[:RING_AT] = _with_names(memory[:RING_AT], part.header)
    for number, content in part.blocks.items():
        entries = np.frombuffer(bytearray(content), DTYPE)
        begun = entries["seq"] > 0
        entries["entered_ns"][begun] += shift_ns
        entries["left_ns"][begun] += shift_ns
        at = RING_AT + number * BLOCK_BYTES
        memory[at : at + BLOCK_BYTES] = entries.tobytes()
    words = np.frombuffer(bytearray(part.header), np.int64)
    lanes = words[OPEN : OPEN + LANES * LANE_WORDS].reshape(LANES, LANE_WORDS)[:, 1:].reshape(LANES, DEPTH, SLOT)
    entered = lanes[:, :, 0]
    entered[entered > 0] += shift_ns
    asked = bytes(memory[ASKED * WORD : (ASKED + 1) * WORD])
    memory[:RING_AT] = words.tobytes()
    memory[ASKED * WORD : (ASKED + 1) * WORD] = asked
