"""Entries of one rank as they are stored: compressed, with the names that they refer to."""

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.errors import StoreDamaged
from engine.trace.entries import DTYPE, Entries

LEVEL = 1
"""Compression level: the fastest one, which takes a third of the size."""


@dataclass(frozen=True, eq=False)
class TraceChunk:
    """Entries of one rank in the order in which they ended; an entry's `name` is an index into `names`."""

    rank: int
    names: tuple[str, ...]
    entries: Entries
    lost: int = 0
    """Entries that the rank overwrote before the worker could read them, since the last chunk."""

    @classmethod
    def of(cls, rank: int, names: Sequence[str], parts: Sequence[Entries], lost: int = 0) -> "TraceChunk":
        """Return a chunk of these entries, with the names that they use."""
        entries = np.concatenate(parts)
        used, numbers = np.unique(entries["name"], return_inverse=True)
        entries["name"] = numbers
        return cls(rank, tuple(names[number] for number in used), entries, lost)

    def packed(self) -> tuple[str, bytes]:
        """Return the names and the entries as stored."""
        return json.dumps(self.names), zlib.compress(self.entries.tobytes(), LEVEL)

    @classmethod
    def unpacked(cls, rank: int, names: str, content: bytes, lost: int = 0) -> "TraceChunk":
        """Return a stored chunk; raises StoreDamaged."""
        try:
            entries = np.frombuffer(zlib.decompress(content), DTYPE)
            return cls(rank, tuple(json.loads(names)), entries, lost)
        except (zlib.error, ValueError, TypeError) as error:
            raise StoreDamaged(f"A stored part of the trace of rank {rank} is damaged: {error}") from error
