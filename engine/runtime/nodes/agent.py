"""The agent of a further node: starts its ranks, relays their messages, and ends them when the worker is gone."""

import logging
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing import get_context
from multiprocessing.connection import Client, Connection, wait
from multiprocessing.process import BaseProcess
from pickle import UnpicklingError
from typing import Any

import psutil

from engine.hang.watch import busy_s, process_state
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
    TraceSource,
    WorkerMessage,
    loads,
)
from engine.runtime.rank.process import RankPlan, rank_main
from engine.runtime.usage import Telemetry
from engine.system.processes import end_processes
from engine.trace.ring_reader import TraceReader

log = logging.getLogger(__name__)

LOOK_S = 0.02
"""Interval of looks at flags and messages."""
TRACE_S = 0.1
"""Interval of looks at the ranks' traces."""
REPORT_S = 1.0
"""Interval of reports on the ranks' processes."""
SILENCE_S = 20.0
"""Time without a word of the worker after which the ranks are ended: its node or the link is lost."""
CLOSE_S = 5.0


@dataclass
class _LocalRank:
    index: int
    process: BaseProcess
    channel: Connection
    trace: TraceSource
    reader: TraceReader
    is_open: bool = True


class NodeAgent:
    """Serves one worker over its link until that leaves or is lost."""

    def __init__(self, link: Connection, interface: str) -> None:
        self._link = link
        self._interface = interface
        self._flags = SharedFlags()
        self._shared: tuple[Callable[..., None], tuple[Any, ...]] | None = None
        self._ranks: dict[int, _LocalRank] = {}
        self._telemetry = Telemetry([])
        self._heard_at = time.monotonic()
        self._traced_at = self._reported_at = 0.0
        self._leaving = False
        self._parent = os.getppid()

    def serve(self) -> None:
        """Do what the worker asks until it leaves or is lost, or the process that Slurm watches this agent by
        is gone; no rank is left at the end.
        """
        try:
            while not self._leaving:
                channels = {rank.channel: rank for rank in self._ranks.values() if rank.is_open}
                for ready in wait([self._link, *channels], LOOK_S):
                    if ready is self._link:
                        self._obey(self._link.recv())
                    else:
                        self._relay(channels[ready])  # type: ignore[index]
                self._send_news()
                if time.monotonic() - self._heard_at > SILENCE_S:
                    log.error("the worker has been silent for %.0f s: its node or the link is lost", SILENCE_S)
                    return
                if os.getppid() != self._parent:
                    log.error("process %d, which started this agent, is gone, and with it the allocation", self._parent)
                    return
        except (EOFError, OSError) as error:
            log.error("the link to the worker is closed: %s", error)
        finally:
            end_processes([rank.process.pid or 0 for rank in self._ranks.values() if rank.process.pid], 0.5)

    def _obey(self, message: Any) -> None:
        self._heard_at = time.monotonic()
        match message:
            case ClockPing():
                self._link.send(ClockPong(message.sent, time.monotonic()))
            case SharedArguments():
                self._shared = loads(message.content, self._flags)
            case StartRank():
                self._start(message)
            case WorkerMessage():
                with suppress(OSError):  # the rank has just ended
                    self._ranks[message.index].channel.send(message.message)
            case FlagChange():
                self._flags.take(message)
            case StackQuestion():
                self._ranks[message.index].reader.ask_for_stacks()
            case EndRanks():
                pids = [rank.process.pid for rank in self._ranks.values() if rank.is_open and rank.process.pid]
                end_processes(pids, message.grace_s)
            case AgentLeave():
                self._leaving = True

    def _start(self, message: StartRank) -> None:
        assert self._shared is not None, "the worker shares the arguments first"
        context = get_context("forkserver")
        gpus = [gpu for gpu in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if gpu]
        plan: RankPlan = loads(message.plan, self._flags)
        device = f"cuda:{len(self._ranks) % len(gpus)}" if gpus and plan.device.startswith("cuda") else plan.device
        here = replace(
            plan.context,
            devices=[device] * len(plan.context.devices),
            visible_gpus=",".join(gpus),
            interface=self._interface,
        )
        plan = replace(plan, context=here, parent_pid=None)
        ours, theirs = context.Pipe()
        process = context.Process(target=rank_main, args=(plan, theirs, *self._shared), name=plan.role)
        try:
            process.start()
        except (OSError, EOFError) as error:
            self._link.send(RankRefused(plan.index, f"The fork server did not start it: {error}"))
            return
        theirs.close()
        self._ranks[plan.index] = _LocalRank(
            plan.index, process, ours, TraceSource(plan.trace.memory), TraceReader(plan.trace.memory)
        )
        self._telemetry = Telemetry([rank.process.pid or 0 for rank in self._ranks.values()])
        self._link.send(RankStarted(plan.index, process.pid or 0))

    def _relay(self, rank: _LocalRank) -> None:
        try:
            message = rank.channel.recv()
        except (EOFError, OSError, UnpicklingError):
            rank.is_open = False
            self._send_traces()
            self._send_flags()
            rank.process.join(CLOSE_S)
            self._link.send(RankClosed(rank.index, rank.process.exitcode))
            return
        self._link.send(RankMessage(rank.index, message))

    def _send_news(self) -> None:
        now = time.monotonic()
        self._send_flags()
        if now - self._traced_at >= TRACE_S:
            self._traced_at = now
            self._send_traces()
        if now - self._reported_at >= REPORT_S:
            self._reported_at = now
            self._telemetry.sample()
            here = [rank for rank in self._ranks.values() if rank.is_open]
            self._link.send(NodeReport({rank.index: self._report(rank.process.pid or 0) for rank in here}))

    def _send_flags(self) -> None:
        for change in self._flags.changes():
            self._link.send(change)

    def _send_traces(self) -> None:
        for rank in self._ranks.values():
            if part := rank.trace.changes():
                self._link.send(replace(part, index=rank.index))

    def _report(self, pid: int) -> ProcessReport:
        try:
            return ProcessReport(process_state(pid), *busy_s(pid), *self._telemetry.of(pid))
        except psutil.Error:
            return ProcessReport("dead", 0.0, 0.0, None, None)


def connect(host: str, port: int, key: bytes, within_s: float = 60.0) -> Connection:
    """Return a link to the worker; raises OSError if it does not listen in time."""
    deadline = time.monotonic() + within_s
    while True:
        try:
            return Client((host, port), authkey=key)
        except (OSError, EOFError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
