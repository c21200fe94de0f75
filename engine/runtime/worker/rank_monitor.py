"""The worker's loop over its ranks: listen, let them through barriers, notice the dead, write what came in."""

import logging
import os
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from pickle import UnpicklingError

from torch import Tensor

from engine.errors import EngineError, RankFailed, StoreBusy, StoreFull
from engine.recorder import Point
from engine.runtime.rank import fork_server
from engine.runtime.rank.channel_recorder import Flush
from engine.runtime.rank.rank import Done, Failed, Go, Hello, Meeting, Said
from engine.runtime.worker.rank_handle import RankHandle
from engine.runtime.worker.retry import PATIENCE_S, patiently
from engine.runtime.worker.sink import Sink
from engine.runtime.worker.telemetry import Telemetry
from engine.store.records import RankBatch
from engine.store.timestamps import now
from engine.system.log_files import trim
from engine.system.out_of_memory import memory_cause
from engine.system.processes import describe_exit

log = logging.getLogger(__name__)

HEARTBEAT_S = 0.25
"""At least this often the run's heartbeat, its progress and all that came in are written."""
EAGER_S = 1.5
"""So long after the start everything is written at once, so that a person sees the first step soon."""
OUTSTAY_S = 3.0
"""So long an expendable rank may go on after all others are done."""
ECHO_S = 10.0
"""So long where all that is known is that ranks lost another one, whose own end is not known yet."""
EXIT_S = 30.0
"""So long a rank that has closed its channel without a word has to exit: how it did is all that is known of its end."""
BLAME_S = 0.3
"""So long the worker listens after a failure, in case an earlier one is still on its way."""


class StopRequested(EngineError):
    """A person or the system asked the run to stop."""


class RankMonitor:
    """The worker's loop over its ranks: listen, let them through barriers, notice the dead, write."""

    def __init__(
        self,
        members: Sequence[RankHandle],
        sink: Sink,
        folder: Path,
        began: float,
        stop_requested: Callable[[], bool],
        departed: Tensor,
        expendable: Collection[str] = (),
        time_before_s: float = 0.0,
    ) -> None:
        self.members = members
        self.sink = sink
        self.folder = folder
        self.began = began
        self.stop_requested = stop_requested
        self.departed = departed
        self.expendable = expendable
        self.time_before_s = time_before_s
        self.outstayed_since: float | None = None
        self.telemetry = Telemetry([member.pid for member in members])
        self.zero: float | None = None
        """The moment (monotonic, s) at which all ranks were ready."""
        self.execution_time_s: float | None = None
        self.written_at = 0.0
        self.unwritten: list[RankBatch] = []

    def until_done(self) -> None:
        """Return when all ranks are done; raise the first failure or StopRequested."""
        try:
            while self._goes_on():
                self._listen()
                self._let_through()
                self._blame()
                if self.stop_requested():
                    self._take_what_is_there()
                    raise StopRequested("The run was asked to stop.")
                self._write_if_due()
            self._blame()
            self._finish()
        finally:
            self._write(final=True)

    def _goes_on(self) -> bool:
        """Say whether there is someone to wait for; an expendable rank that outstays the others is not
        waited for long.
        """
        here = [member for member in self.members if member.open]
        if (
            not here
            or any(member.role not in self.expendable for member in here)
            or len(self.expendable) == len(self.members)
        ):
            return bool(here)
        self.outstayed_since = self.outstayed_since or time.monotonic()
        if time.monotonic() - self.outstayed_since < OUTSTAY_S:
            return True
        self._take_what_is_there()  # it may be this process that stood still
        if not all(member.open for member in here):
            return True
        for member in here:
            self.sink.event(
                "rank left behind",
                f"{member.role} had not ended {OUTSTAY_S:.0f} s after the ranks it worked for; it was ended.",
            )
        return False

    def _listen(self, timeout_s: float = 0.1) -> None:
        by_channel = {member.channel: member for member in self.members if member.open}
        for ready in wait(list(by_channel), timeout_s):
            assert isinstance(ready, Connection)
            self._receive(by_channel[ready])

    def _take_what_is_there(self) -> None:
        """Receive what ranks have sent already. They go on sending, so a moment is all it takes: one of this thread's
        own time, however long it stood still.
        """
        end = time.thread_time() + BLAME_S
        while time.thread_time() < end and wait([member.channel for member in self.members if member.open], 0.0):
            self._listen(0.0)

    def _receive(self, member: RankHandle) -> None:
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
            case Said():
                self.sink.event(message.kind, message.detail)
            case Done():
                member.done_at, member.state = message.at, "done"
            case Failed():
                member.failure = RankFailed(member.role, message.sentence, message.traceback)
                member.failed_at, member.state, member.echo = message.at, "failed", message.echo

    def _left(self, member: RankHandle) -> None:
        """The rank closed its channel: right when it is done, a failure otherwise."""
        member.open = False
        self.outstayed_since = None  # the others may be on their way out too
        member.process.join(timeout=5.0 if member.done_at is not None or member.failure is not None else EXIT_S)
        if member.done_at is not None or member.failure is not None:
            return
        code = member.process.exitcode
        if (
            code == fork_server.EXIT_UNKNOWN
            and not member.plan.parent_pid
            and (sentence := fork_server.end_of_server())
        ):
            self._lose_all(member, sentence)
            return
        how = "closed its channel but did not exit" if code is None else describe_exit(code)
        sentence = f"{member.role} (rank {member.plan.index}, pid {member.pid}) {how} before its work was done."
        if self._can_do_without(member):
            member.state = "failed"
            self.departed[member.plan.index] = 1
            self.sink.event("rank lost", f"{sentence} The others go on.")
            return
        last_words = _tail(self.folder / "logs" / f"{member.role}.log")
        member.failure = RankFailed(member.role, f"{sentence}{memory_cause(last_words)}", last_words)
        member.failed_at, member.state = time.monotonic(), "failed"

    def _lose_all(self, first: RankHandle, sentence: str) -> None:
        """The fork server died, and the kernel killed its ranks: none of them is to blame, and how each ended is not
        known.
        """
        first.failure, first.failed_at = RankFailed(fork_server.NAME, sentence), time.monotonic()
        for member in self.members:
            member.exit_is_known = member.process.exitcode not in (None, fork_server.EXIT_UNKNOWN)

    def _can_do_without(self, member: RankHandle) -> bool:
        """Say whether the others go on: the rank is expendable, training has begun, and another of its kind is left."""
        others = [other for other in self.members if other.role in self.expendable and other is not member]
        return (
            member.role in self.expendable
            and self.zero is not None
            and any(other.open or other.done_at for other in others)
        )

    def _let_through(self) -> None:
        waiting = {member.waits_at for member in self.members if not self.departed[member.plan.index]}
        if len(waiting) != 1 or (name := waiting.pop()) is None:
            return
        go = Go(name, time.monotonic())
        if name == "ready" and self.zero is None:
            self.zero = go.at
            self.sink.running(go.at - self.began)
        for member in self.members:
            if self.departed[member.plan.index]:
                continue
            member.waits_at = None
            member.state = "running"
            with suppress(OSError):  # it died this moment; its end of file is next
                member.channel.send(go)

    def _blame(self) -> None:
        """Raise the first failure, after a moment in which an earlier one may still come in."""
        if not any(member.failure for member in self.members):
            return
        began = time.monotonic()
        while any(member.open for member in self.members):
            heard = any(member.failure and not member.echo for member in self.members)
            if (left := began + (BLAME_S if heard else ECHO_S) - time.monotonic()) <= 0:
                break
            self._listen(min(left, BLAME_S))
        self._take_what_is_there()  # it may be this process that stood still
        failed = [member for member in self.members if member.failure]
        first = min(failed, key=lambda member: (member.echo, member.failed_at))
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
            self._trim_logs()
            for member in self.members:
                member.memory_mb, member.cpu_percent = self.telemetry.of(member.pid)
        done, total, unit = self._progress()
        self.written_at = time.monotonic()
        own = self._run_points(done, unit, bool(samples), final)
        try:
            patiently(
                lambda: self.sink.write(self.unwritten, own, (done, total, unit), samples), PATIENCE_S if final else 0.0
            )
            self.unwritten = []
            self.sink.ranks([member.row() for member in self.members])
        except (StoreBusy, StoreFull) as error:
            # What was recorded is kept here and written with the next batch: a busy database or a full disk costs time,
            # not points.
            log.warning("%s", error)
            if final:
                raise

    def _trim_logs(self) -> None:
        for role in ("worker", *(member.role for member in self.members)):
            try:
                trim(self.folder / "logs" / f"{role}.log")
            except OSError as error:
                log.warning("the log of %s can't be trimmed: %s", role, error)

    def take_last_words(self) -> None:
        """Keep what ranks sent before they were ended, now that they are gone: a checkpoint that stands may stand for
        points among it.
        """
        for member in self.members:
            with suppress(
                EOFError, OSError, UnpicklingError
            ):  # a word that was cut short; whoever may still hold its other end is not waited for
                os.set_blocking(member.channel.fileno(), False)
                while member.open and member.channel.poll():
                    if isinstance(message := member.channel.recv(), Flush):
                        member.inbox.append(message)
                        member.latest = message
        batches = [batch for member in self.members if (batch := member.take())]
        if batches and not self.unwritten:  # where something is, the store has just refused it for long
            try:
                patiently(lambda: self.sink.write(batches, [], self._progress(), []), PATIENCE_S)
            except (StoreBusy, StoreFull) as error:
                log.warning("%s", error)  # what ended the run is told, not this

    def _progress(self) -> tuple[int, int, str]:
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
        elapsed = (
            max((member.latest.progress_at for member in self.members), default=0.0) - self.zero + self.time_before_s
        )
        passes = max((member.passes for member in self.members if member.passes is not None), default=None)
        here = time.monotonic() - self.zero + self.time_before_s
        points = []
        if due and done and elapsed > 0:
            points.append(Point(f"perf/{unit.replace(' ', '_')}_per_second", done, done / elapsed, here, passes))
        if final:
            if self.execution_time_s is not None:
                points.append(Point("perf/execution_time_s", done, self.execution_time_s, here, passes))
            points.append(Point("perf/startup_time_s", done, self.zero - self.began, here, passes))
            points.append(
                Point("perf/points_dropped", done, sum(member.latest.dropped for member in self.members), here, passes)
            )
        return points

    def _finish(self) -> None:
        ends = [member.done_at for member in self.members if member.done_at is not None]
        if self.zero is not None and ends:
            self.execution_time_s = max(ends) - self.zero + self.time_before_s


def _tail(path: Path, size: int = 4000) -> str:
    """Return the end of a log, empty when there is none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - size))
            return file.read().decode(errors="replace")
    except OSError:
        return ""
