"""Recording of a rank's measurements: the interface for methods, and an in-memory implementation.

Recording never blocks a training step; dropped records are counted.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from engine.errors import UnknownName
from engine.metrics import PHASES
from engine.trace.layout import NO_VERSION, NOBODY


class Point(NamedTuple):
    """One value of one metric; `time_s` counts from all ranks ready, `passes` over the training data by all ranks."""

    name: str
    step: int
    value: float
    time_s: float
    passes: float | None = None


class Span(NamedTuple):
    """One interval of work on the machine's monotonic clock."""

    name: str
    stage: int
    micro_batch: int
    t0_ns: int
    t1_ns: int
    bytes: int = 0
    peer: str = ""


class Details(Protocol):
    """What becomes known of an operation while it goes on: bytes moved, version of the weights, staleness (`value`)."""

    bytes: int
    version: int
    value: int


@dataclass
class Traced:
    """One operation as `MemoryRecorder` keeps it; see `Recorder.operation`."""

    kind: str
    name: str
    peer: int
    number: int
    picked: bool
    entered_ns: int
    left_ns: int = 0
    bytes: int = 0
    version: int = NO_VERSION
    value: int = 0


class Recorder(Protocol):
    """The recording interface for methods."""

    def log(self, values: Mapping[str, float], *, step: int, passes: float | None = None) -> None:
        """Record one point per metric at this rank's `step`."""

    def phase(
        self, name: str, what: str = "", *, peer: int = NOBODY, number: int = 0, picked: bool = False
    ) -> AbstractContextManager[Details]:
        """Add the block's seconds to a phase (names: engine.metrics.PHASES) of the rank's main thread, and trace it as
        `operation` does; an inner phase pauses the outer one's sum.
        """

    def spend(self, name: str, seconds: float) -> None:
        """Add seconds to a phase outside any block (negative ones subtract), for later corrections."""

    def operation(
        self, kind: str, name: str = "", *, peer: int = NOBODY, number: int = 0, picked: bool = False
    ) -> AbstractContextManager[Details]:
        """Trace the block: its start, its end and what is known of it. It counts in no phase; any thread may use it.

        `kind` is one of engine.trace.layout.KINDS, `peer` the index of the rank at the other end, `number` tells
        messages of one kind apart. A `picked` operation is stored whatever the sampling.
        """

    def note(
        self, kind: str, name: str, *, peer: int = NOBODY, number: int = 0, version: int = NO_VERSION, value: int = 0
    ) -> None:
        """Trace a moment: an operation without duration."""

    def histogram(self, name: str, bucket: int, count: int = 1) -> None:
        """Add `count` to one bucket of a histogram."""

    def exchanged(self, size: int) -> None:
        """Count the bytes exchanged with another rank, on one side only. Recorded as `perf/exchanged` in MB."""

    def progress(self, done: int, total: int, unit: str = "samples") -> None:
        """Report this rank's progress, in the unit of its throughput."""

    def summarize(self, what: str, number: int | None = None, total: int | None = None) -> None:
        """Write a line to the rank's log at the end of an epoch, round or update: its number, and the means of the
        metrics recorded since the last one.
        """

    def flush(self) -> None:
        """Send all records, so they survive this rank. May wait for a busy worker, so don't call it in each step."""


@dataclass
class MemoryRecorder:
    """A recorder that keeps everything in lists, for tests."""

    points: list[Point] = field(default_factory=list)
    phases: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    operations: list["Traced"] = field(default_factory=list)
    histograms: dict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    bytes: int = 0
    """Bytes exchanged."""
    done: int = 0
    total: int = 0
    unit: str = "samples"
    started: float = field(default_factory=time.monotonic)
    summarized: list[tuple[str, int | None, int | None]] = field(default_factory=list)
    _inner_s: float = 0.0
    """Seconds of the phases inside of the current one."""

    def log(self, values: Mapping[str, float], *, step: int, passes: float | None = None) -> None:
        now = time.monotonic() - self.started
        self.points += [Point(name, step, float(value), now, passes) for name, value in values.items()]

    @contextmanager
    def phase(
        self, name: str, what: str = "", *, peer: int = NOBODY, number: int = 0, picked: bool = False
    ) -> Iterator[Details]:
        self.spend(name, 0.0)
        began, outer, self._inner_s = time.perf_counter(), self._inner_s, 0.0
        with self.operation(name, what, peer=peer, number=number, picked=picked) as details:
            try:
                yield details
            finally:
                took = time.perf_counter() - began
                self.spend(name, took - self._inner_s)
                self._inner_s = outer + took

    def spend(self, name: str, seconds: float) -> None:
        if name not in PHASES:
            raise UnknownName("phase", name, PHASES)
        self.phases[name] += seconds

    @contextmanager
    def operation(
        self, kind: str, name: str = "", *, peer: int = NOBODY, number: int = 0, picked: bool = False
    ) -> Iterator[Details]:
        details = Traced(kind, name, peer, number, picked, time.monotonic_ns())
        try:
            yield details
        finally:
            details.left_ns = time.monotonic_ns()
            self.operations.append(details)

    def note(
        self, kind: str, name: str, *, peer: int = NOBODY, number: int = 0, version: int = NO_VERSION, value: int = 0
    ) -> None:
        now = time.monotonic_ns()
        self.operations.append(Traced(kind, name, peer, number, False, now, now, version=version, value=value))

    def histogram(self, name: str, bucket: int, count: int = 1) -> None:
        self.histograms[name][bucket] += count

    def exchanged(self, size: int) -> None:
        self.bytes += size

    def progress(self, done: int, total: int, unit: str = "samples") -> None:
        self.done, self.total, self.unit = done, total, unit

    def summarize(self, what: str, number: int | None = None, total: int | None = None) -> None:
        self.summarized.append((what, number, total))

    def flush(self) -> None:
        """Do nothing: everything is kept."""

    def values(self, name: str) -> list[float]:
        """Return all values of one metric, in logging order."""
        return [point.value for point in self.points if point.name == name]
