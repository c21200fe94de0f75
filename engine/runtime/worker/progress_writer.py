"""The progress of a run on the way to the store: what its ranks recorded, the machine's numbers and the run's own, in
one batch. Torch-free.
"""

import logging
import math
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean

from engine.errors import StoreBusy, StoreFull
from engine.metrics import EPISODES, LAST_EPISODES, LOSS, LOSS_FALL, MOST_EPISODES, WINDOW, rate_of, throughput
from engine.recorder import Point
from engine.runtime.usage import Disturbance, Telemetry
from engine.runtime.worker.sink import PATIENCE_S, Sink, retry_while_busy
from engine.store.curve_records import MachineSample
from engine.store.records import RankBatch, RankRow
from engine.store.timestamps import now
from engine.system.run_files import has_reader, trim
from engine.trace.layout import TraceWindow

log = logging.getLogger(__name__)

HEARTBEAT_S, READ_HEARTBEAT_S = 0.25, 0.05
"""Minimum seconds between writes of the run's heartbeat, progress and messages."""


class ProgressWriter(ABC):
    """Writes a run's progress together with what its ranks recorded; a subclass knows the ranks."""

    def __init__(
        self,
        folder: Path,
        began: float,
        sink: Sink,
        disturbance: Disturbance,
        telemetry: Telemetry,
        time_before_s: float = 0.0,
    ) -> None:
        self.folder = folder
        """The run's folder."""
        self.began = began
        """The time (monotonic, s) at which the worker accepted the run."""
        self.sink = sink
        self.disturbance = disturbance
        self.telemetry = telemetry
        self.time_before_s = time_before_s
        self.learning = LearningFigures(resumed=time_before_s > 0)
        self.zero: float | None = None
        """The time (monotonic, s) at which all ranks were ready."""
        self.execution_time_s: float | None = None
        self.written_at = 0.0
        self.unwritten: list[RankBatch] = []
        self.unwritten_points: list[Point] = []
        """Points of the whole run."""
        self.windows: list[TraceWindow] = []
        """New windows of the trace, not written yet."""

    @abstractmethod
    def collect(self, final: bool) -> tuple[list[RankBatch], list[Point]]:
        """Return what ranks have recorded since the last call, and new points of the whole run."""

    @abstractmethod
    def rows(self) -> list[RankRow]:
        """Return the ranks as they are stored."""

    @abstractmethod
    def totals(self) -> tuple[int, int, str]:
        """Return the work done, all of it, and its unit."""

    def rate(self, done: int, elapsed_s: float) -> float | None:
        """Return the work per second so far; None while that is unknown."""
        return throughput(done, elapsed_s)

    @abstractmethod
    def note_use(self) -> None:
        """Take the ranks' use of the machine from the telemetry's last sample."""

    @abstractmethod
    def note_stored(self, batches: Sequence[RankBatch], final: bool) -> None:
        """Take note that these batches are stored."""

    @property
    def log_names(self) -> Sequence[str]:
        """Names of the logs that are kept short."""
        return ("worker", *(row.role for row in self.rows()))

    @property
    def progress_at(self) -> float:
        """The time (monotonic, s) of the last progress."""
        return time.monotonic()

    @property
    def passes(self) -> float | None:
        """Passes over the training data; None if they are not known."""
        return None

    @property
    def dropped(self) -> int:
        """Number of points that ranks have dropped."""
        return 0

    @property
    def interval_s(self) -> float:
        """Seconds between two writes: fewer while somebody reads the newest points."""
        return READ_HEARTBEAT_S if has_reader(self.folder) else HEARTBEAT_S

    def begin(self, zero: float) -> None:
        """Record that all ranks have been ready since that time."""
        self.zero = zero
        retry_while_busy(lambda: self.sink.running(zero - self.began))

    def write_if_due(self) -> None:
        """Write if the heartbeat is due."""
        if time.monotonic() - self.written_at >= self.interval_s:
            self.write()

    def write(self, final: bool = False) -> None:
        """Write everything received. If the store is busy or full it is kept for the next time; `final` waits, and
        raises.
        """
        batches, points = self.collect(final)
        self.unwritten += batches
        self.unwritten_points += points
        samples: list[MachineSample] = []
        programs: Sequence[tuple[str, float]] = ()
        if self.telemetry.due() or final:
            samples = self.telemetry.sample()
            at = now()
            samples += [MachineSample(at, *place, value) for place, value in self.disturbance.sample().items()]
            programs = self.disturbance.programs() if final else ()
            self._trim_logs()
            self.note_use()
        self.learning.add(point for batch in batches for point in batch.points)
        totals = done, _, unit = self.totals()
        self.written_at = time.monotonic()
        own = [*self.unwritten_points, *self._run_points(done, unit, bool(samples), final)]
        try:
            retry_while_busy(
                lambda: self.sink.write(self.unwritten, own, totals, samples, self.windows),
                PATIENCE_S if final else 0.0,
            )
            written, self.unwritten, self.unwritten_points, self.windows = self.unwritten, [], [], []
            self.note_stored(written, final)
            self.sink.ranks(self.rows())
            if programs:
                self.sink.note("other_programs", [[*each] for each in programs])
        except (StoreBusy, StoreFull) as error:
            # Records are kept here and written with the next batch: a busy database or a full disk costs time,
            # not points.
            log.warning("%s", error)
            if final:
                raise

    def _trim_logs(self) -> None:
        for name in self.log_names:
            try:
                trim(self.folder / "logs" / f"{name}.log")
            except OSError as error:
                log.warning("the log of %s can't be trimmed: %s", name, error)

    def _run_points(self, done: int, unit: str, due: bool, final: bool) -> list[Point]:
        """Return the run's own numbers: throughput so far, and at the end the times and the points dropped."""
        if self.zero is None:
            return []
        before_s, passes = self.time_before_s, self.passes
        elapsed = self.execution_time_s or (self.progress_at - self.zero + before_s)
        here = time.monotonic() - self.zero + before_s
        points = []
        if due and elapsed > 0 and (rate := self.rate(done, elapsed)):
            points.append(Point(rate_of(unit), done, rate, here, passes))
        if due:
            points += [
                Point(name, done, value, here, passes) for name, value in self.learning.values(final=final).items()
            ]
        if final:
            if self.execution_time_s is not None:
                points.append(Point("perf/execution_time_s", done, self.execution_time_s, here, passes))
            points.append(Point("perf/startup_time_s", done, self.zero - self.began, here, passes))
            points.append(Point("perf/points_dropped", done, self.dropped, here, passes))
            points += self.disturbance.points(done, here, passes)
        return points


class LearningFigures:
    """Figures over the points of all ranks, which arrive in portions: the mean of the last episodes, and how far the
    loss fell.
    """

    def __init__(self, *, resumed: bool = False) -> None:
        self._resumed = resumed
        self._episodes: deque[float] = deque(maxlen=MOST_EPISODES)
        self._first: list[float] = []
        self._latest: deque[float] = deque(maxlen=WINDOW)
        self._steps = 0

    def add(self, points: Iterable[Point]) -> None:
        """Add a portion of the ranks' points; values that are not finite don't count."""
        known = (point for point in points if point.name in (EPISODES, LOSS) and math.isfinite(point.value))
        for point in sorted(known, key=lambda point: point.time_s):
            if point.name == EPISODES:
                self._episodes.append(point.value)
                continue
            self._steps += 1
            self._latest.append(point.value)
            if len(self._first) < WINDOW:
                self._first.append(point.value)

    def values(self, *, final: bool) -> dict[str, float]:
        """Return the figures so far. The fall of the loss is known at the end of a run that began at its first step and
        recorded two windows.
        """
        found = {LAST_EPISODES: fmean(self._episodes)} if self._episodes else {}
        if final and not self._resumed and self._steps >= 2 * WINDOW:
            found[LOSS_FALL] = fmean(self._first) - fmean(self._latest)
        return found
