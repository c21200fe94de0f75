"""One rank as its worker sees it, and the progress of a run with its ranks' messages, on the way to the store."""

import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from engine.errors import RankFailed, StoreBusy, StoreFull
from engine.recorder import Point, Span
from engine.runtime.nodes.node import RemoteProcess
from engine.runtime.rank.channel_recorder import Flush
from engine.runtime.rank.process import RankPlan
from engine.runtime.rank.rank import RunContext, Saved
from engine.runtime.usage import Disturbance, Telemetry
from engine.runtime.worker.progress_writer import ProgressWriter
from engine.runtime.worker.sink import PATIENCE_S, Sink, retry_while_busy
from engine.store.records import RankBatch, RankRow, RankState
from engine.system.checkpoint_state import PARTS, publish
from engine.trace.chunk import TraceChunk
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

SILENT_S = 10.0
"""Seconds without a message after which a checkpoint no longer waits for a rank's points."""
EAGER_S = 1.5
"""Seconds after the start during which everything is written at once, so that the first step appears soon."""


class RunProgress(ProgressWriter):
    """A run's progress, written together with its ranks' messages."""

    def __init__(
        self,
        members: Sequence[RankHandle],
        context: RunContext,
        sink: Sink,
        disturbance: Disturbance,
    ) -> None:
        telemetry = Telemetry([member.pid for member in members if not member.remote])
        super().__init__(context.folder, context.began, sink, disturbance, telemetry, context.time_before_s)
        self.members = members
        self.context = context
        self.traces = TraceCollector([member.trace for member in members])
        self.checkpoints: list[Saved] = []
        """Checkpoints that ranks have written, not published yet, oldest first."""

    def begin(self, zero: float) -> None:
        """Record that all ranks have been ready since that time."""
        self.traces.begin(zero)
        super().begin(zero)

    def write_if_due(self) -> None:
        """Write if the heartbeat is due, or the first step has just arrived."""
        since_start = time.monotonic() - (self.zero or time.monotonic())
        if since_start < EAGER_S and any(flush.points for member in self.members for flush in member.inbox):
            self.write()
        super().write_if_due()

    def collect(self, final: bool) -> tuple[list[RankBatch], list[Point]]:
        """Return each rank's messages with what is to be stored of its trace."""
        with suppress(StoreBusy):
            for seconds in self.sink.trace_requests():
                self.traces.request(seconds)
        traced = self.traces.collect(final)
        self.windows += self.traces.new_windows()
        batches = [
            member.take(self._spans(picked), chunk)
            for member, (picked, chunk) in zip(self.members, traced, strict=True)
        ]
        return [*filter(None, batches)], []

    def rows(self) -> list[RankRow]:
        """Return the ranks as they are stored."""
        return [member.row() for member in self.members]

    def note_use(self) -> None:
        """Take each rank's use of the machine; one on another node reports its own."""
        for member in self.members:
            if (remote := member.remote) is None:
                member.memory_mb, member.cpu_percent = self.telemetry.of(member.pid)
            elif remote.report:
                member.memory_mb, member.cpu_percent = remote.report.memory_mb, remote.report.cpu_percent

    def note_stored(self, batches: Sequence[RankBatch], final: bool) -> None:
        """Publish the checkpoints whose points are stored; after the final write ranks may still send."""
        self._note_stored(batches)
        if not final:
            self._publish_checkpoints()

    def write_last(self) -> None:
        """Write what ranks sent before they were stopped."""
        batches = [batch for member in self.members if (batch := member.take())]
        if self.unwritten:  # the store has just refused it for long
            return
        try:
            if batches:
                retry_while_busy(lambda: self.sink.write(batches, [], self.totals(), [], []), PATIENCE_S)
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
            self.execution_time_s = max(ends) - self.zero + self.time_before_s

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

    def totals(self) -> tuple[int, int, str]:
        """Return the sums over all ranks."""
        done = sum(member.latest.progress[0] for member in self.members)
        total = sum(member.latest.progress[1] for member in self.members)
        return (
            done,
            total,
            next((member.latest.progress[2] for member in self.members if member.latest.progress[1]), "samples"),
        )

    @property
    def progress_at(self) -> float:
        """The time (monotonic, s) of the last progress of a rank."""
        return max((member.latest.progress_at for member in self.members), default=0.0)

    @property
    def passes(self) -> float | None:
        """The most passes of a rank."""
        return max((member.passes for member in self.members if member.passes is not None), default=None)

    @property
    def dropped(self) -> int:
        """Number of points that ranks have dropped."""
        return sum(member.latest.dropped for member in self.members)
