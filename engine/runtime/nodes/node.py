"""A further node as the worker sees it: a thread that speaks with its agent, and stand-ins for its ranks' processes."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from typing import Any

from engine.errors import RankFailed
from engine.runtime.nodes.messages import (
    AgentLeave,
    ClockPing,
    ClockPong,
    EndRanks,
    FlagChange,
    NodeReport,
    ProcessReport,
    RankClosed,
    RankMessage,
    RankRefused,
    RankStarted,
    SharedArguments,
    SharedFlags,
    StackQuestion,
    StartRank,
    TracePart,
    WorkerMessage,
    dumps,
    write,
)
from engine.runtime.rank.channel_recorder import Done, Failed, Flush, Go
from engine.runtime.rank.process import RankPlan
from engine.trace.health import ProcessState
from engine.trace.ring_reader import TraceReader

log = logging.getLogger(__name__)

LOOK_S = 0.02
PING_S = 1.0
PINGS = 20
"""Number of latest pings whose quickest tells the difference of the clocks."""
SILENCE_S = 15.0
"""Time without a word of the agent after which the node is lost."""
START_S = 60.0
"""Time for an agent to start a rank."""


@dataclass
class RemoteProcess:
    """Stands for the process of a rank on another node; has what the worker uses of a local one."""

    role: str
    node: str
    pid: int | None = None
    exitcode: int | None = None
    lost: str = ""
    """Why nothing is known of it any more; empty while its node answers."""
    report: ProcessReport | None = None
    ended: threading.Event = field(default_factory=threading.Event)

    def looked_at(self) -> tuple[ProcessState, float, float]:
        """Return the state of the process, and the seconds in which its threads used a core and waited for one."""
        found = self.report
        return (found.state, found.used_s, found.waited_s) if found else ("running", 0.0, 0.0)

    def join(self, timeout: float | None = None) -> None:
        """Wait until it has ended, or its node is lost."""
        self.ended.wait(timeout)


@dataclass
class _RemoteRank:
    process: RemoteProcess
    channel: Connection
    """The far end of the worker's channel to the rank."""
    trace: memoryview
    reader: TraceReader
    asked: int = 0
    started: threading.Event = field(default_factory=threading.Event)
    refused: str = ""


class Node:
    """A further node and its agent; `start` begins a rank there."""

    def __init__(self, name: str, link: Connection) -> None:
        self.name = name
        self._link = link
        self._flags = SharedFlags()
        self._ranks: dict[int, _RemoteRank] = {}
        self._sending = threading.Lock()
        self._trips: deque[tuple[float, float]] = deque(maxlen=PINGS)
        """Duration of each round trip, and by what the node's clock was ahead of ours (s)."""
        self._heard_at = time.monotonic()
        self._pinged_at = 0.0
        self._closing = False
        self._lost = ""
        self._thread = threading.Thread(target=self._run, name=f"node {name}", daemon=True)
        self._thread.start()

    @property
    def ahead_s(self) -> float:
        """By how many seconds the node's monotonic clock is ahead of this one's, by the quickest of the last pings."""
        return min(self._trips)[1] if self._trips else 0.0

    def share(self, function: Callable[..., None], shared: tuple[Any, ...]) -> None:
        """Send what all ranks get."""
        self._wait_for_clock()
        self._send(SharedArguments(dumps((function, shared), self._flags)))
        self._heard_at = time.monotonic()  # sending much takes a while, in which no ping is sent

    def start(self, plan: RankPlan, channel: Connection) -> RemoteProcess:
        """Start a rank and serve its end of its channel to the worker; raises RankFailed."""
        process = RemoteProcess(plan.role, self.name)
        rank = _RemoteRank(process, channel, plan.trace.memory, TraceReader(plan.trace.memory))
        content = dumps(plan, self._flags)
        self._ranks[plan.index] = rank
        self._send(StartRank(plan.index, content))
        if self._lost:
            raise RankFailed(plan.role, f"{plan.role} could not be started on node {self.name}, which {self._lost}")
        if not rank.started.wait(START_S) or process.lost or rank.refused:
            why = process.lost or rank.refused or f"did not start within {START_S:.0f} s"
            raise RankFailed(plan.role, f"{plan.role} could not be started on node {self.name}: {why}")
        return process

    def end_ranks(self, grace_s: float) -> None:
        """End the node's ranks and wait for that."""
        self._send(EndRanks(grace_s))
        for rank in self._ranks.values():
            rank.process.join(grace_s + 6.0)

    def close(self) -> None:
        """Let the agent leave."""
        self._send(AgentLeave())
        self._closing = True
        self._thread.join(2.0)
        with suppress(OSError):
            self._link.close()

    def _wait_for_clock(self) -> None:
        deadline = time.monotonic() + 5.0
        while len(self._trips) < 5 and time.monotonic() < deadline:
            time.sleep(0.01)

    def _send(self, message: Any) -> None:
        with self._sending, suppress(OSError):  # the thread notices that the link is closed
            self._link.send(message)

    def _run(self) -> None:
        try:
            while not self._closing:
                self._step()
        except (EOFError, OSError):
            self._lose("its agent has ended" if not self._closing else "")
        except Exception as bug:
            log.exception("internal error while speaking with node %s", self.name)
            self._lose(f"its messages could not be handled: {bug}")

    def _step(self) -> None:
        now = time.monotonic()
        if now - self._pinged_at >= (PING_S if len(self._trips) >= 5 else LOOK_S):
            self._pinged_at = now
            self._send(ClockPing(now))
        channels = {rank.channel: index for index, rank in self._ranks.items() if not rank.channel.closed}
        for ready in wait([self._link, *channels], LOOK_S):
            if ready is self._link:
                self._hear(self._link.recv())
            else:
                self._forward(channels[ready])  # type: ignore[index]
        for change in self._flags.changes():
            self._send(change)
        for index, rank in self._ranks.items():
            if (asked := rank.reader.asked) != rank.asked:
                rank.asked = asked
                self._send(StackQuestion(index))
        if time.monotonic() - self._heard_at > SILENCE_S:
            raise EOFError

    def _forward(self, index: int) -> None:
        """Send a message of the worker to a rank, with its time as the rank's node counts it."""
        rank = self._ranks[index]
        try:
            message = rank.channel.recv()
        except (EOFError, OSError):
            rank.channel.close()
            return
        if isinstance(message, Go):
            message = replace(message, at=message.at + self.ahead_s)
        self._send(WorkerMessage(index, message))

    def _hear(self, message: Any) -> None:
        self._heard_at = now = time.monotonic()
        match message:
            case ClockPong():
                trip = now - message.sent
                self._trips.append((trip, message.here - message.sent - trip / 2))
            case RankStarted():
                self._ranks[message.index].process.pid = message.pid
                self._ranks[message.index].started.set()
            case RankRefused():
                self._ranks[message.index].refused = message.why
                self._ranks[message.index].started.set()
            case RankMessage():
                with suppress(OSError):  # the worker has closed its end
                    self._ranks[message.index].channel.send(self._in_our_time(message.message))
            case FlagChange():
                self._flags.take(message)
            case TracePart():
                write(self._ranks[message.index].trace, message, -round(self.ahead_s * 1e9))
            case NodeReport():
                for index, report in message.processes.items():
                    self._ranks[index].process.report = report
            case RankClosed():
                rank = self._ranks[message.index]
                rank.process.exitcode = message.exit_code
                rank.process.ended.set()
                rank.channel.close()

    def _in_our_time(self, message: Any) -> Any:
        if isinstance(message, Done | Failed):
            return replace(message, at=message.at - self.ahead_s)
        if isinstance(message, Flush) and message.progress_at:
            message.progress_at -= self.ahead_s
        return message

    def _lose(self, why: str) -> None:
        """The node does not answer any more: what its ranks did last is unknown."""
        silent = time.monotonic() - self._heard_at > SILENCE_S
        self._lost = why = f"has not answered for {SILENCE_S:.0f} s" if silent else why
        for rank in self._ranks.values():
            if not rank.process.ended.is_set():
                rank.process.lost = f"was on node {self.name}, which is lost ({why}),"
            rank.process.ended.set()
            rank.started.set()
            with suppress(OSError):
                rank.channel.close()
