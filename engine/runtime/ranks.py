"""The ranks of one run from the worker's side: start them together, watch them, end them all whatever happens.

`method.run(config, ranks)` calls `ranks.run(function, ...)`; the first failure is the one raised.
"""

import logging
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, Literal

import torch.multiprocessing as mp

from engine.errors import EngineError, RankFailed, StoreBusy
from engine.recorder import Point
from engine.runtime.local_ranks import LocalRanks
from engine.runtime.processes import describe_exit, end_processes
from engine.runtime.rank import Done, Failed, Go, Hello, Meeting, Rank, RankPlan, rank_main
from engine.runtime.recording import Flush
from engine.runtime.sink import Sink
from engine.runtime.telemetry import Telemetry
from engine.store.clock import now
from engine.store.records import RankBatch, RankRow, RankState

log = logging.getLogger(__name__)

__all__ = ["LocalRanks", "Rank", "Ranks", "StopRequested"]

HEARTBEAT_S = 0.25
"""At least this often the run's heartbeat, its progress and all that came in are written."""
EAGER_S = 1.5
"""So long after the start everything is written at once, so that a person sees the first step soon."""
GRACE_S = 3.0
"""What a rank has to end by itself after SIGTERM."""
BLAME_S = 0.3
"""So long the worker listens after a failure, in case an earlier one is still on its way."""


class StopRequested(EngineError):
    """A person or the system asked the run to stop."""


@dataclass
class Member:
    """One rank as the worker knows it."""

    plan: RankPlan
    process: BaseProcess
    channel: Connection
    state: RankState = "starting"
    preloaded: bool = False
    open: bool = True
    waits_at: str | None = None
    heard_at: str | None = None
    inbox: list[Flush] = field(default_factory=list)
    latest: Flush = field(default_factory=Flush)
    passes: float | None = None
    done_at: float | None = None
    failure: RankFailed | None = None
    failed_at: float = 0.0
    memory_mb: float | None = None
    cpu_percent: float | None = None

    @property
    def role(self) -> str:
        return self.plan.role

    @property
    def pid(self) -> int:
        return self.process.pid or 0

    def row(self) -> RankRow:
        """Return the rank as the store keeps it."""
        return RankRow(
            self.plan.index,
            self.role,
            self.process.pid,
            self.plan.device,
            self.state,
            self.latest.last_step,
            self.heard_at,
            self.process.exitcode,
            self.memory_mb,
            self.cpu_percent,
        )

    def take(self) -> RankBatch | None:
        """Return what the rank sent since the last call as one batch, or None when that was nothing."""
        if not self.inbox:
            return None
        flushes, self.inbox = self.inbox, []
        histograms: dict[tuple[str, int], int] = {}
        for flush in flushes:
            for key, count in flush.histograms.items():
                histograms[key] = histograms.get(key, 0) + count
        return RankBatch(
            self.plan.index,
            [Point(*raw) for flush in flushes for raw in flush.points],
            self.latest.phases,
            [span for flush in flushes for span in flush.spans],
            histograms,
            self.latest.last_step,
            self.latest.dropped,
        )


@dataclass
class Ranks:
    """How a run's ranks are to be started, and after `run` what they took."""

    roles: Sequence[str]
    devices: Sequence[str]
    threads: int
    seed: int
    folder: Path
    sink: Sink
    start_method: Literal["forkserver", "spawn"] = "forkserver"
    visible_gpus: str = ""
    stop_requested: Callable[[], bool] = lambda: False
    began: float = field(default_factory=time.monotonic)
    """The moment (monotonic, s) at which the worker took the run; start-up counts from here."""
    execution_time_s: float | None = None
    members: list[Member] = field(default_factory=list)

    def run(self, function: Callable[..., None], *shared: Any) -> None:
        """Call `function(rank, *shared)` in one process per role and wait for all.

        `function` stands at a module's top level; `shared` is pickled, tensors in shared memory go by handle (under 50 of them).
        Raises RankFailed with the first failure, StopRequested when the run was asked to stop; no rank is left alive either way.
        """
        if self.stop_requested():
            raise StopRequested("The run was asked to stop.")
        (self.folder / "logs").mkdir(parents=True, exist_ok=True)
        context = mp.get_context(self.start_method)
        try:
            self.members = []
            for index, role in enumerate(self.roles):
                self.members.append(self._start(context, self._plan(index, role), function, shared))
            self.sink.ranks([member.row() for member in self.members])
            _Watch(self).until_done()
        finally:
            self._end_all()

    def _plan(self, index: int, role: str) -> RankPlan:
        return RankPlan(
            index,
            role,
            len(self.roles),
            self.devices[index],
            self.threads,
            self.seed + index,
            self.folder,
            self.visible_gpus,
            os.getpid() if self.start_method == "spawn" else None,
        )

    def _start(self, context: Any, plan: RankPlan, function: Callable[..., None], shared: tuple[Any, ...]) -> Member:
        ours, theirs = context.Pipe()
        process = context.Process(target=rank_main, args=(plan, theirs, function, shared), name=plan.role)
        process.start()
        theirs.close()  # so that our end reads end-of-file when the rank has gone
        return Member(plan, process, ours)

    def _end_all(self) -> None:
        """End whoever still lives and say so in the store; runs on every way out."""
        left = end_processes([member.pid for member in self.members if member.process.exitcode is None], GRACE_S)
        for member in self.members:
            member.channel.close()
            member.process.join(timeout=0.5)
            if member.state not in ("done", "failed"):
                member.state = "ended"
        self.sink.ranks([member.row() for member in self.members])
        if left:
            self.sink.event("rank outlived kill", f"These pids are still there: {', '.join(map(str, left))}.")


class _Watch:
    """The worker's loop over its ranks: listen, let them through barriers, notice the dead, write."""

    def __init__(self, ranks: Ranks) -> None:
        self.ranks = ranks
        self.members = ranks.members
        self.telemetry = Telemetry([member.pid for member in ranks.members])
        self.zero: float | None = None
        self.written_at = 0.0
        self.unwritten: list[RankBatch] = []

    def until_done(self) -> None:
        """Return when all ranks are done; raise the first failure or StopRequested."""
        try:
            while any(member.open for member in self.members):
                self._listen()
                self._let_through()
                self._blame()
                if self.ranks.stop_requested():
                    raise StopRequested("The run was asked to stop.")
                self._write_if_due()
            self._finish()
        finally:
            self._write(final=True)

    def _listen(self, timeout_s: float = 0.1) -> None:
        by_channel = {member.channel: member for member in self.members if member.open}
        for ready in wait(list(by_channel), timeout_s):
            assert isinstance(ready, Connection)
            self._receive(by_channel[ready])

    def _receive(self, member: Member) -> None:
        try:
            message = member.channel.recv()
        except (EOFError, OSError, UnpicklingError):
            self._left(member)
            return
        member.heard_at = now()
        match message:
            case Flush():
                member.inbox.append(message)
                member.latest = message
                if message.points:
                    member.passes = message.points[-1][4]
            case Hello():
                member.preloaded = message.preloaded
            case Meeting():
                member.waits_at = message.name
                member.state = "ready" if message.name == "ready" else member.state
            case Done():
                member.done_at, member.state = message.at, "done"
            case Failed():
                member.failure = RankFailed(member.role, message.sentence, message.traceback)
                member.failed_at, member.state = message.at, "failed"

    def _left(self, member: Member) -> None:
        """The rank closed its channel: right when it is done, a failure otherwise."""
        member.open = False
        member.process.join(timeout=5.0)
        if member.done_at is not None or member.failure is not None:
            return
        code = member.process.exitcode
        how = "closed its channel but did not exit" if code is None else describe_exit(code)
        sentence = f"{member.role} (rank {member.plan.index}, pid {member.pid}) {how} before its work was done."
        member.failure = RankFailed(member.role, sentence, _tail(self.ranks.folder / "logs" / f"{member.role}.log"))
        member.failed_at, member.state = time.monotonic(), "failed"

    def _let_through(self) -> None:
        waiting = {member.waits_at for member in self.members}
        if len(waiting) > 1 or (name := waiting.pop()) is None:
            return
        go = Go(name, time.monotonic())
        if name == "ready" and self.zero is None:
            self.zero = go.at
            self.ranks.sink.running(go.at - self.ranks.began)
        for member in self.members:
            member.waits_at = None
            member.state = "running"
            with suppress(OSError):  # it died this moment; its end of file is next
                member.channel.send(go)

    def _blame(self) -> None:
        """Raise the first failure, after a moment in which an earlier one may still come in."""
        if not any(member.failure for member in self.members):
            return
        deadline = time.monotonic() + BLAME_S
        while (left := deadline - time.monotonic()) > 0 and any(member.open for member in self.members):
            self._listen(left)
        failed = [member for member in self.members if member.failure]
        first = min(failed, key=lambda member: member.failed_at)
        assert first.failure is not None
        raise first.failure

    def _write_if_due(self) -> None:
        since_start = time.monotonic() - (self.zero or time.monotonic())
        eager = since_start < EAGER_S and any(flush.points for member in self.members for flush in member.inbox)
        if eager or time.monotonic() - self.written_at >= HEARTBEAT_S:
            self._write()

    def _write(self, final: bool = False) -> None:
        self.unwritten += [batch for member in self.members if (batch := member.take())]
        samples = []
        if self.telemetry.due() or final:
            samples = self.telemetry.sample()
            for member in self.members:
                member.memory_mb, member.cpu_percent = self.telemetry.of(member.pid)
        done = sum(member.latest.progress[0] for member in self.members)
        total = sum(member.latest.progress[1] for member in self.members)
        unit = self.members[0].latest.progress[2] if self.members else ""
        self.written_at = time.monotonic()
        try:
            self.ranks.sink.write(self.unwritten, self._run_points(done, unit, bool(samples), final), (done, total, unit), samples)
            self.unwritten = []
            self.ranks.sink.ranks([member.row() for member in self.members])
        except StoreBusy as error:
            # What was recorded is kept here and written with the next batch: a busy database costs time, not points.
            log.warning("%s", error)
            if final:
                raise

    def _run_points(self, done: int, unit: str, due: bool, final: bool) -> list[Point]:
        """Return the run's own numbers: throughput so far, and at the end the times and the points dropped."""
        if self.zero is None:
            return []
        elapsed = max((member.latest.progress_at for member in self.members), default=0.0) - self.zero
        passes = max((member.passes for member in self.members if member.passes is not None), default=None)
        here = time.monotonic() - self.zero
        points = []
        if due and done and elapsed > 0:
            points.append(Point(f"perf/{unit}_per_second", done, done / elapsed, here, passes))
        if final:
            if self.ranks.execution_time_s is not None:
                points.append(Point("perf/execution_time_s", done, self.ranks.execution_time_s, here, passes))
            points.append(Point("perf/startup_time_s", done, self.zero - self.ranks.began, here, passes))
            points.append(Point("perf/points_dropped", done, sum(member.latest.dropped for member in self.members), here, passes))
        return points

    def _finish(self) -> None:
        ends = [member.done_at for member in self.members if member.done_at is not None]
        if self.zero is not None and ends:
            self.ranks.execution_time_s = max(ends) - self.zero


def _tail(path: Path, size: int = 4000) -> str:
    """Return the end of a log, empty when there is none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - size))
            return file.read().decode(errors="replace")
    except OSError:
        return ""
