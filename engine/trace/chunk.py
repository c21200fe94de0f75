"""Entries of one rank as they are stored: compressed, with the names that they refer to."""

import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import StoreDamaged
from engine.trace.layout import CAPACITY, ENTRY, KINDS, LANES, LATEST_NS, MOST_NAMES, NAME_BYTES

# ---- Entries of a trace as a NumPy array, a row per operation ------------------------------------------------------

DTYPE = np.dtype(
    [
        ("seq", "<u8"),
        ("entered_ns", "<i8"),
        ("left_ns", "<i8"),
        ("kind", "u1"),
        ("lane", "u1"),
        ("name", "<u2"),
        ("peer", "<i2"),
        ("depth", "u1"),
        ("flags", "u1"),
        ("bytes", "<i8"),
        ("step", "<i8"),
        ("number", "<i8"),
        ("version", "<i4"),
        ("value", "<i4"),
    ]
)
"""One operation: `lane` numbers the threads of a rank (0: its main thread), `depth` counts the operations around it,
`step` is the rank's last logged step, `version` that of the weights; `number` tells messages of one kind apart, and
`value` is the staleness of a gradient, or the stage of a pipeline.
"""
Entries = NDArray[Any]
"""Entries of `DTYPE`."""

assert DTYPE.itemsize == ENTRY.size


# ---- Chunk ---------------------------------------------------------------------------------------------------------

LEVEL = 1
"""Compression level: the fastest one."""
MOST_ENTRIES = 2 * CAPACITY
"""Entries in a chunk: at most a whole ring, and the tail of a run."""


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
        """Return a chunk of these entries, with the names that they use; a name that the rank never gave is empty."""
        entries = np.concatenate(parts)
        used, numbers = np.unique(entries["name"], return_inverse=True)
        entries["name"] = numbers
        return cls(rank, tuple(names[number] if number < len(names) else "" for number in used), entries, lost)

    def __len__(self) -> int:
        return len(self.entries)

    def packed(self) -> tuple[str, str]:
        """Return the names and the entries as stored."""
        content = zlib.compress(self.entries.tobytes(), LEVEL)
        return json.dumps(self.names, ensure_ascii=False), b64encode(content).decode()

    @classmethod
    def unpacked(cls, rank: int, names: str, content: str, count: int, lost: int = 0) -> "TraceChunk":
        """Return a stored chunk of `count` entries; raises StoreDamaged if it isn't what `packed` returns."""
        try:
            entries = _expanded(content, count)
            found: tuple[str, ...] = tuple(json.loads(names))
        except (zlib.error, ValueError, TypeError) as error:
            raise StoreDamaged(f"A stored part of the trace of rank {rank} is damaged: {error}") from error
        if wrong := _wrong(entries, found, count):
            raise StoreDamaged(f"A stored part of the trace of rank {rank} is damaged: {wrong}.")
        return cls(rank, found, entries, lost)


def _expanded(content: str, count: int) -> Entries:
    """Return the entries of a compressed content, at most one more than it should have; one of a wrong count."""
    size, most = DTYPE.itemsize, count + 1 if 0 < count <= MOST_ENTRIES else 1
    expanded = zlib.decompressobj().decompress(b64decode(content, validate=True), most * size)
    return np.frombuffer(expanded, DTYPE, len(expanded) // size)


def _wrong(entries: Entries, names: tuple[Any, ...], count: int) -> str:
    """Return what is wrong with the content of a chunk, or nothing."""
    if not 0 < count <= MOST_ENTRIES or len(entries) != count:
        return f"{len(entries):,} operations instead of {count:,}"
    if len(names) > MOST_NAMES or not all(map(_is_name, names)) or int(entries["name"].max()) >= len(names):
        return "an operation without a name"
    if int(entries["kind"].max()) >= len(KINDS):
        return f"an operation of the unknown kind {int(entries['kind'].max())}"
    if int(entries["lane"].max()) >= LANES or int(entries["left_ns"].max()) >= LATEST_NS:
        return "an operation of an unknown thread or time"
    if (entries["left_ns"] < entries["entered_ns"]).any() or int(entries["entered_ns"].min()) < 0:
        return "an operation that ends before it starts"
    return ""


def _is_name(name: Any) -> bool:
    """Return whether it is a text that a rank's table of names can hold."""
    encoded = name.encode(errors="ignore") if isinstance(name, str) else b""
    return isinstance(name, str) and encoded.decode() == name and len(encoded) <= NAME_BYTES
