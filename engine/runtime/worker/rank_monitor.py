"""The worker's loop over its ranks: receive messages, release barriers, detect dead ranks, write to the store."""

import os
import signal
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection, wait
from pickle import UnpicklingError

from torch import Tensor

from engine.errors import RankFailed, StoreBusy, StoreFull, enumeration
from engine.hang.rules import collective_cause
from engine.hang.watch import HangWatch, WatchedRank
from engine.runtime.rank import fork_server
from engine.runtime.rank.channel_recorder import Done, Failed, Flush, Go, Hello, Meeting, Said
from engine.runtime.rank.rank import RunContext, Saved
from engine.runtime.usage import Disturbance
from engine.runtime.worker.run_progress import RankHandle, RunProgress
from engine.runtime.worker.sink import Sink, StopRequested, retry_while_busy
from engine.store.timestamps import now
from engine.system.out_of_memory import kernel_kills, kill_cause, memory_cause
from engine.system.processes import describe_exit
from engine.system.run_files import tail
from engine.trace.health import Verdict

OUTSTAY_S = 3.0
"""Seconds that an expendable rank may continue after all others are done."""
ECHO_S = 10.0
"""Seconds to wait when ranks report a lost rank whose own end is not known yet."""
EXIT_S = 30.0
"""Seconds that a rank has to exit after closing its channel without a message: only the exit code shows the cause."""
ENDED = "The run was ended, as its option says for a run that hangs."
HEALTH_S = 1.0
"""Seconds between writes of the ranks' states."""
BLAME_S = 0.3
"""Seconds that the worker listens after a failure, in case an earlier one is still in transit."""


class RankMonitor:
    """The worker's loop over its ranks: receive messages, release barriers, detect dead ranks, write."""

    def __init__(
        self,
        members: Sequence[RankHandle],
        context: RunContext,
        sink: Sink,
        disturbance: Disturbance,
        stop_requested: Callable[[], bool],
        departed: Tensor,
        expendable: Collection[str] = (),
    ) -> None:
        self.members = members
        self.context = context
        self.sink = sink
        self.stop_requested = stop_requested
        self.departed = departed
        self.expendable = expendable
        self.outstayed_since: float | None = None
        self.unsent: list[Callable[[], None]] = []
        """Events and standstills that are not recorded yet: the store may be busy or full."""
        watched = [self._watched(member) for member in members]
        self.hang = HangWatch(watched, context.folder, self._tell_standstill, context.hang_limits)
        self.health_at, self.told = 0.0, Verdict("STARTING")
        self.kernel_kills = kernel_kills()
        self.progress = RunProgress(members, context, sink, disturbance)

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
                self.progress.write_if_due()
                self._watch()
                with suppress(StoreBusy, StoreFull):
                    self._send()
            self._blame()
            self.progress.finish()
        finally:
            self.progress.write(final=True)
            retry_while_busy(self._send)

    def _watched(self, member: RankHandle) -> WatchedRank:
        """Return a rank for the hang doctor; a rank that is done, or given up, is not looked at."""
        return WatchedRank(
            member.plan.index,
            member.role,
            member.pid,
            member.trace,
            lambda: not member.open or bool(member.done_at),
            lambda: bool(member.done_at),
            member.remote.looked_at if member.remote else None,
        )

    def _tell(self, kind: str, detail: str) -> None:
        self.unsent.append(partial(self.sink.event, kind, detail))

    def _tell_standstill(self, verdict: Verdict) -> None:
        self.unsent.append(partial(self.sink.standstill, verdict.state.lower(), verdict.sentence))

    def _send(self) -> None:
        """Record what happened, in order; raises StoreBusy or StoreFull, and keeps the rest."""
        while self.unsent:
            self.unsent[0]()
            del self.unsent[0]

    def _watch(self) -> None:
        """Look for ranks that do not continue; store what was found, at most each second. Raises RankFailed for a hung
        run that is to end.
        """
        self.hang.started = self.progress.zero is not None
        self.hang.look_if_due()
        health, at = self.hang.health, time.monotonic()
        if health and (at - self.health_at >= HEALTH_S or health.verdict.state != self.told.state):
            self.health_at, self.told = at, health.verdict
            with suppress(StoreBusy, StoreFull):
                self.sink.health(health)
        if health and health.verdict.state == "HUNG" and self.context.end_when_hung:
            role = health.verdict.rank
            raise RankFailed(role, f"{health.verdict.sentence} {ENDED}", self.hang.stacks_of(role))

    def _goes_on(self) -> bool:
        """Return whether there is a rank to wait for; expendable ranks get a limited time after the others."""
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
        self._take_what_is_there()  # this process itself may have been suspended
        if not all(member.open for member in here):
            return True
        for member in here:
            self._tell(
                "rank left behind",
                f"{member.role} was still running {OUTSTAY_S:.0f} s after the ranks it worked for; it was stopped.",
            )
        return False

    def _listen(self, timeout_s: float = 0.1) -> None:
        by_channel = {member.channel: member for member in self.members if member.open}
        for ready in wait(list(by_channel), timeout_s):
            assert isinstance(ready, Connection)
            self._receive(by_channel[ready])

    def _take_what_is_there(self) -> None:
        """Receive what ranks have already sent. They keep sending, so this stops after a moment of this thread's own
        time, even if it was suspended.
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
        member.heard_at, member.heard_s = now(), time.monotonic()
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
                self._tell(message.kind, message.detail)
            case Saved():
                self.progress.checkpoints.append(message)
            case Done():
                member.done_at, member.state = message.at, "done"
            case Failed():
                member.failure = RankFailed(member.role, message.sentence, message.traceback)
                member.failed_at, member.state, member.echo = message.at, "failed", message.echo

    def _left(self, member: RankHandle) -> None:
        """Handle a closed channel: normal if the rank is done, a failure otherwise."""
        member.open = False
        self.outstayed_since = None  # the others may be exiting too
        member.process.join(timeout=5.0 if member.done_at is not None or member.failure is not None else EXIT_S)
        if member.done_at is not None or member.failure is not None:
            return
        code = member.process.exitcode
        if (
            not member.remote
            and code == fork_server.EXIT_UNKNOWN
            and not member.plan.parent_pid
            and (sentence := fork_server.end_of_server())
        ):
            self._lose_all(member, sentence)
            return
        how = "closed its channel but did not exit" if code is None else describe_exit(code)
        if member.remote:
            how = member.remote.lost or f"on node {member.remote.node} {how}"
        sentence = f"{member.role} (rank {member.plan.index}, pid {member.pid}) {how} before its work was done."
        if self._can_do_without(member):
            member.state = "failed"
            self.departed[member.plan.index] = 1
            self._tell("rank lost", f"{sentence} The other ranks continue.")
            return
        last_words = tail(self.context.folder / "logs" / f"{member.role}.log")
        cause = memory_cause(last_words) or collective_cause(last_words)
        if not cause and code == -signal.SIGKILL and not member.remote:
            cause = kill_cause(self.kernel_kills, kernel_kills())
        member.failure = RankFailed(member.role, f"{sentence}{cause}", last_words)
        member.failed_at, member.state = time.monotonic(), "failed"

    def _lose_all(self, first: RankHandle, sentence: str) -> None:
        """The fork server died and the kernel killed its ranks: none of them is the cause, and their exit codes are
        unknown.
        """
        first.failure, first.failed_at = RankFailed(fork_server.NAME, sentence), time.monotonic()
        for member in self.members:
            member.exit_is_known = member.process.exitcode not in (None, fork_server.EXIT_UNKNOWN)

    def _can_do_without(self, member: RankHandle) -> bool:
        """Return whether the run continues: the rank is expendable, training has begun, and another one of its kind is
        left.
        """
        others = [other for other in self.members if other.role in self.expendable and other is not member]
        return (
            member.role in self.expendable
            and self.progress.zero is not None
            and any(other.open or other.done_at for other in others)
        )

    def _let_through(self) -> None:
        waiting = {member.waits_at for member in self.members if not self.departed[member.plan.index]}
        if len(waiting) != 1 or (name := waiting.pop()) is None:
            return
        go = Go(name, time.monotonic())
        if name == "ready" and self.progress.zero is None:
            self.progress.begin(go.at)
        for member in self.members:
            if self.departed[member.plan.index]:
                continue
            member.waits_at = None
            member.state = "running"
            with suppress(OSError):  # it died this moment; its end of file is next
                member.channel.send(go)
        if name == "ready":
            self.progress.disturbance.begin([member.pid for member in self.members if not member.remote])

    def _blame(self) -> None:
        """Raise the first failure, after a moment in which an earlier one may still arrive."""
        if not any(member.failure for member in self.members):
            return
        began = time.monotonic()
        while any(member.open for member in self.members):
            heard = any(member.failure and not member.echo for member in self.members)
            if (left := began + (BLAME_S if heard else ECHO_S) - time.monotonic()) <= 0:
                break
            self._listen(min(left, BLAME_S))
        self._take_what_is_there()  # this process itself may have been suspended
        failed = [member for member in self.members if member.failure]
        first = min(failed, key=lambda member: (member.echo, member.failed_at))
        assert first.failure is not None
        ended = [member.role for member in self.members if member.done_at]
        if first.echo and ended:  # nobody failed: one ended while this one still counted on it
            raise RankFailed(
                first.role,
                f"{first.failure} {enumeration(ended)} had ended by then: do all ranks take part equally often?",
                first.failure.traceback,
            )
        raise first.failure

    def take_last_words(self) -> None:
        """Store what ranks sent before they were stopped: a saved checkpoint may include such points."""
        for member in self.members:
            with suppress(
                EOFError, OSError, UnpicklingError
            ):  # a truncated message; other holders of its end are not waited for
                os.set_blocking(member.channel.fileno(), False)
                while member.open and member.channel.poll():
                    match message := member.channel.recv():
                        case Flush():
                            member.inbox.append(message)
                            member.latest = message
                        case Saved():
                            self.progress.checkpoints.append(message)
        self.progress.write_last()
