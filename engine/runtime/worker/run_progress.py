"""One rank as its worker sees it, and the progress of a run with its ranks' messages, on the way to the store."""

import logging
import math
import time
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from statistics import fmean

from engine.errors import RankFailed, StoreBusy, StoreFull
from engine.metrics import EPISODES, LAST_EPISODES, LOSS, LOSS_FALL, MOST_EPISODES, WINDOW, rate_of, throughput
from engine.recorder import Point, Span
from engine.runtime.nodes.node import RemoteProcess
from engine.runtime.rank.channel_recorder import Flush
from engine.runtime.rank.process import RankPlan
from engine.runtime.rank.rank import RunContext, Saved
from engine.runtime.usage import Disturbance, Telemetry
from engine.runtime.worker.sink import PATIENCE_S, Sink, retry_while_busy
from engine.store.curve_records import MachineSample
from engine.store.records import RankBatch, RankRow, RankState
from engine.store.timestamps import now
from engine.system.checkpoint_state import PARTS, publish
from engine.system.run_files import trim
from engine.trace.chunk import TraceChunk
from engine.trace.layout import TraceWindow
from engine.trace.ring_reader import TraceCollector, TraceReader

# ---- One rank as its worker sees it: the process, the channel, the last messages -----------------------------------


@dataclass
class RankHandle:
    """One rank as the worker sees it."""

    plan: RankPlan
    process: BaseProcess | RemoteProcess
    channel: Connection
    state: RankState = "starting"
    preloaded: bool = False
    open: bool = True
    waits_at: str | None = None
    heard_at: str | None = None
    heard_s: float = 0.0
    """The time (monotonic, s) of its last message."""
    inbox: list[Flush] = field(default_factory=list)
    latest: Flush = field(default_factory=Flush)
    stored_step: int = 0
    """A step whose points, and those of all steps before, are stored."""
    passes: float | None = None
    done_at: float | None = None
    failure: RankFailed | None = None
    failed_at: float = 0.0
    echo: bool = False
    """Whether its failure is only the loss of another rank."""
    exit_is_known: bool = True
    """False if the fork server, the only process that could report it, died first."""
    memory_mb: float | None = None
    cpu_percent: float | None = None
    trace: TraceReader = field(init=False)

    def __post_init__(self) -> None:
        self.trace = TraceReader(self.plan.trace.memory)

    @property
    def role(self) -> str:
        return self.plan.role

    @property
    def pid(self) -> int:
        return self.process.pid or 0

    @property
    def remote(self) -> RemoteProcess | None:
        """Its process if it is on another node: its pid means nothing here."""
        return self.process if isinstance(self.process, RemoteProcess) else None

    def row(self) -> RankRow:
        """Return the rank as stored."""
        return RankRow(
            self.plan.index,
            self.role,
            self.process.pid,
            self.plan.device,
            self.state,
            self.latest.last_step,
            self.heard_at,
            self.process.exitcode if self.exit_is_known else None,
            self.memory_mb,
            self.cpu_percent,
        )

    def take(self, spans: Sequence[Span] = (), chunk: TraceChunk | None = None) -> RankBatch | None:
        """Return everything that the rank sent since the last call, and of its trace what is to be stored, as one
        batch; None if there is nothing.
        """
        if not self.inbox and not spans and chunk is None:
            return None
        flushes, self.inbox = self.inbox, []
        histograms: dict[tuple[str, int], int] = {}
        for flush in flushes:
            for key, count in flush.histograms.items():
                histograms[key] = histograms.get(key, 0) + count
        return RankBatch(
            self.plan.index,
            [Point(*fields) for flush in flushes for fields in flush.points],
            self.trace.sums(),
            spans,
            histograms,
            self.latest.last_step,
            self.latest.dropped,
            chunk,
        )


# ---- The progress of a run and its ranks' messages, on the way to the store ----------------------------------------

log = logging.getLogger(__name__)

HEARTBEAT_S = 0.25
"""Minimum seconds between writes of the run's heartbeat, progress and messages."""
SILENT_S = 10.0
"""Seconds without a message after which a checkpoint no longer waits for a rank's points."""
EAGER_S = 1.5
"""Seconds after the start during which everything is written at once, so that the first step appears soon."""


class RunProgress:
    """A run's progress, written together with its ranks' messages."""

    def __init__(
        self,
        members: Sequence[RankHandle],
        context: RunContext,
        sink: Sink,
        disturbance: Disturbance,
    ) -> None:
        self.members = members
        self.context = context
        self.sink = sink
        self.telemetry = Telemetry([member.pid for member in members if not member.remote])
        self.disturbance = disturbance
        self.traces = TraceCollector([member.trace for member in members])
        self.learning = LearningFigures(resumed=context.time_before_s > 0)
        self.zero: float | None = None
        """The time (monotonic, s) at which all ranks were ready."""
        self.execution_time_s: float | None = None
        self.written_at = 0.0
        self.unwritten: list[RankBatch] = []
        self.windows: list[TraceWindow] = []
        """New windows of the trace, not written yet."""
        self.checkpoints: list[Saved] = []
        """Checkpoints that ranks have written, not published yet, oldest first."""

    def begin(self, zero: float) -> None:
        """Record that all ranks have been ready since that time."""
        self.zero = zero
        self.traces.begin(zero)
        retry_while_busy(lambda: self.sink.running(zero - self.context.began))

    def write_if_due(self) -> None:
        """Write if the heartbeat is due, or the first step has just arrived."""
        since_start = time.monotonic() - (self.zero or time.monotonic())
        eager = since_start < EAGER_S and any(flush.points for member in self.members for flush in member.inbox)
        if eager or time.monotonic() - self.written_at >= HEARTBEAT_S:
            self.write()

    def write(self, final: bool = False) -> None:
        """Write everything received. If the store is busy or full it is kept for the next time; `final` waits, and
        raises.
        """
        with suppress(StoreBusy):
            for seconds in self.sink.trace_requests():
                self.traces.request(seconds)
        traced = self.traces.collect(final)
        batches = [
            batch
            for member, (picked, chunk) in zip(self.members, traced, strict=True)
            if (batch := member.take(self._spans(picked), chunk))
        ]
        self.unwritten += batches
        self.windows += self.traces.new_windows()
        samples: list[MachineSample] = []
        programs: Sequence[tuple[str, float]] = ()
        if self.telemetry.due() or final:
            samples = self.telemetry.sample()
            at = now()
            samples += [MachineSample(at, *place, value) for place, value in self.disturbance.sample().items()]
            programs = self.disturbance.programs() if final else ()
            self._trim_logs()
            for member in self.members:
                if (remote := member.remote) is None:
                    member.memory_mb, member.cpu_percent = self.telemetry.of(member.pid)
                elif remote.report:
                    member.memory_mb, member.cpu_percent = remote.report.memory_mb, remote.report.cpu_percent
        self.learning.add(point for batch in batches for point in batch.points)
        done, total, unit = self._totals()
        self.written_at = time.monotonic()
        own = self._run_points(done, unit, bool(samples), final)
        try:
            retry_while_busy(
                lambda: self.sink.write(self.unwritten, own, (done, total, unit), samples, self.windows),
                PATIENCE_S if final else 0.0,
            )
            self._note_stored(self.unwritten)
            self.unwritten, self.windows = [], []
            if not final:  # ranks may still send, until `write_last`
                self._publish_checkpoints()
            self.sink.ranks([member.row() for member in self.members])
            if programs:
                self.sink.note("other_programs", [[*each] for each in programs])
        except (StoreBusy, StoreFull) as error:
            # Records are kept here and written with the next batch: a busy database or a full disk costs time,
            # not points.
            log.warning("%s", error)
            if final:
                raise

    def write_last(self) -> None:
        """Write what ranks sent before they were stopped."""
        batches = [batch for member in self.members if (batch := member.take())]
        if self.unwritten:  # the store has just refused it for long
            return
        try:
            if batches:
                retry_while_busy(lambda: self.sink.write(batches, [], self._totals(), [], []), PATIENCE_S)
            self._note_stored(batches)
            self._publish_checkpoints(final=True)
        except (StoreBusy, StoreFull) as error:
            log.warning("%s", error)  # the run's own failure is reported, not this one

    def _note_stored(self, batches: Sequence[RankBatch]) -> None:
        for batch in batches:
            member = self.members[batch.rank]
            member.stored_step = max(member.stored_step, batch.last_step or 0)

    def _publish_checkpoints(self, final: bool = False) -> None:
        """Publish the newest checkpoint whose points are all stored, and drop those that it supersedes; of those that
        wait, keep the first and the last, or with `final` none.
        """
        ready = [saved for saved in self.checkpoints if self._is_stored(saved, final)]
        waiting = self.checkpoints[self.checkpoints.index(ready[-1]) + 1 :] if ready else self.checkpoints
        kept = [] if final else waiting if len(waiting) < 2 else [waiting[0], waiting[-1]]
        folder = self.context.folder
        try:
            if ready:
                self.sink.sync()
                publish(folder, ready[-1].name)
            names = {saved.name for saved in kept}
            for path in folder.glob(PARTS) if final else [folder / saved.name for saved in self.checkpoints]:
                if path.name not in names:
                    path.unlink(missing_ok=True)
        except OSError as error:
            log.warning("a checkpoint can't be saved, and the previous one remains: %s", error)
        self.checkpoints = kept

    def _is_stored(self, saved: Saved, final: bool) -> bool:
        """Return whether all points that a checkpoint includes are stored. The run may continue without a rank that is
        gone or, except at its end, silent for long, whose last points may never come.
        """
        now_s = time.monotonic()
        return all(
            member.stored_step >= saved.steps.get(member.plan.index, 0)
            or member.done_at is not None
            or (not member.open and member.failure is None)
            or (not final and now_s - member.heard_s > SILENT_S)
            for member in self.members
        )

    def finish(self) -> None:
        """Compute the execution time, now that all ranks are done."""
        ends = [member.done_at for member in self.members if member.done_at is not None]
        if self.zero is not None and ends:
            self.execution_time_s = max(ends) - self.zero + self.context.time_before_s

    def _spans(self, picked: TraceChunk | None) -> list[Span]:
        """Return picked operations as spans of a pipeline."""
        if picked is None:
            return []
        return [
            Span(
                picked.names[entry["name"]],
                int(entry["value"]),
                int(entry["number"]),
                int(entry["entered_ns"]),
                int(entry["left_ns"]),
                int(entry["bytes"]),
                self.members[entry["peer"]].role if entry["peer"] >= 0 else "",
            )
            for entry in picked.entries
        ]

    def _trim_logs(self) -> None:
        for role in ("worker", *(member.role for member in self.members)):
            try:
                trim(self.context.folder / "logs" / f"{role}.log")
            except OSError as error:
                log.warning("the log of %s can't be trimmed: %s", role, error)

    def _totals(self) -> tuple[int, int, str]:
        done = sum(member.latest.progress[0] for member in self.members)
        total = sum(member.latest.progress[1] for member in self.members)
        return (
            done,
            total,
            next((member.latest.progress[2] for member in self.members if member.latest.progress[1]), "samples"),
        )

    def _run_points(self, done: int, unit: str, due: bool, final: bool) -> list[Point]:
        """Return the run's own numbers: throughput so far, and at the end the times and the points dropped."""
        if self.zero is None:
            return []
        before_s = self.context.time_before_s
        elapsed = self.execution_time_s or (
            max((member.latest.progress_at for member in self.members), default=0.0) - self.zero + before_s
        )
        passes = max((member.passes for member in self.members if member.passes is not None), default=None)
        here = time.monotonic() - self.zero + before_s
        points = []
        if due and elapsed > 0 and (rate := throughput(done, elapsed)):
            points.append(Point(rate_of(unit), done, rate, here, passes))
        if due:
            points += [
                Point(name, done, value, here, passes) for name, value in self.learning.values(final=final).items()
            ]
        if final:
            if self.execution_time_s is not None:
                points.append(Point("perf/execution_time_s", done, self.execution_time_s, here, passes))
            points.append(Point("perf/startup_time_s", done, self.zero - self.context.began, here, passes))
            points.append(
                Point("perf/points_dropped", done, sum(member.latest.dropped for member in self.members), here, passes)
            )
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
