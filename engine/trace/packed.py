"""Entries of one rank, compressed already: what a run on another machine sends. Torch-free, without NumPy."""

from dataclasses import dataclass


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
