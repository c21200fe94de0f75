"""Collects the traces of a run's ranks for the store."""

import time
from collections.abc import Sequence

from engine.trace.chunk import TraceChunk
from engine.trace.layout import PICKED, TraceWindow
from engine.trace.ring_reader import TraceReader
from engine.trace.sampler import TraceSampler


class TraceCollector:
    """Reads what the ranks have traced, and keeps what is to be stored."""

    def __init__(self, readers: Sequence[TraceReader]) -> None:
        self._readers = readers
        self.sampler = TraceSampler(len(readers))
        self._lost = [0] * len(readers)
        self._told: list[TraceWindow] = []

    def begin(self, zero_s: float) -> None:
        """Begin with the run, whose ranks have all been ready since that time (monotonic, s)."""
        self.sampler.begin(round(zero_s * 1e9))

    def request(self, seconds: float) -> None:
        """Store all operations from now on for so long."""
        self.sampler.request(time.monotonic_ns(), seconds)

    def collect(self, final: bool = False) -> list[tuple[TraceChunk | None, TraceChunk | None]]:
        """Return each rank's new picked operations, and the operations to store now."""
        now, found = time.monotonic_ns(), []
        drained = [reader.drain() for reader in self._readers]
        self.sampler.extend(now, [reader.step for reader in self._readers])
        chosen = [self.sampler.choose(rank, entries) for rank, entries in enumerate(drained)]
        if final:
            chosen += self.sampler.finish(now)
        for rank, reader in enumerate(self._readers):
            names = reader.names()
            entries = [each for each in chosen[rank :: len(self._readers)] if len(each)]
            lost, self._lost[rank] = reader.lost - self._lost[rank], reader.lost
            picked = drained[rank][drained[rank]["flags"] & PICKED > 0]
            found.append(
                (
                    TraceChunk.of(rank, names, [picked]) if len(picked) else None,
                    TraceChunk.of(rank, names, entries, lost) if entries else None,
                )
            )
        return found

    def new_windows(self) -> list[TraceWindow]:
        """Return the windows that are new, or have changed, since the last call."""
        new = [window for window in self.sampler.windows if window not in self._told]
        self._told = list(self.sampler.windows)
        return new
