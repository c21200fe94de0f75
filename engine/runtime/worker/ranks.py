"""The ranks of one run from the worker's side: start them together, stop them all in any case.

`method.run(config, ranks)` calls `ranks.run(function, ...)`; the first failure is raised.
"""

import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from multiprocessing import Pipe
from typing import Any

import torch
import torch.multiprocessing as mp

from engine.errors import RankFailed
from engine.hang.stacks import remove_empty
from engine.runtime.nodes.node import Node
from engine.runtime.rank import fork_server
from engine.runtime.rank.process import PickledCall, RankPlan, call_inside, rank_main
from engine.runtime.rank.rank import Rank, RunContext
from engine.runtime.usage import Disturbance
from engine.runtime.worker.rank_monitor import RankMonitor
from engine.runtime.worker.run_progress import RankHandle
from engine.runtime.worker.sink import Sink, StopRequested
from engine.system.machine import machine
from engine.system.network_isolation import rule_of
from engine.system.processes import end_processes
from engine.system.run_files import is_meeting_file, remove_files
from engine.trace.ring import TraceMemory

__all__ = ["Rank", "Ranks", "StopRequested"]

GRACE_S = 2.0
"""Seconds that a rank has to exit after SIGTERM."""


@dataclass(slots=True)
class Ranks:
    """How to start a run's ranks, and after `run` the measured times."""

    context: RunContext
    sink: Sink
    disturbance: Disturbance = field(default_factory=lambda: Disturbance(1, machine().core_ids))
    """Counts what others take from the run."""
    stop_requested: Callable[[], bool] = lambda: False
    nodes: Sequence[Node] = ()
    """Further nodes; each gets as many neighbouring ranks as this one, or one more."""
    execution_time_s: float | None = None
    members: list[RankHandle] = field(default_factory=list)

    @property
    def devices(self) -> Sequence[str]:
        """The device of each rank."""
        return self.context.devices

    def run(self, function: Callable[..., None], *shared: Any, expendable: Collection[str] = ()) -> None:
        """Call `function(rank, *shared)` in one process per role and wait for all.

        `function` must be at a module's top level; `shared` is pickled, tensors in shared memory are passed by handle
        (at most 49). Ranks whose roles are `expendable` may die while the others continue (`rank.gone()` lists them),
        as long as one of them is left; one that outlasts all others is stopped. An exception in any rank is a failure.
        Raises RankFailed with the first failure, StopRequested if a stop was requested; either way no rank is left
        alive.
        """
        if self.stop_requested():
            raise StopRequested("The run was asked to stop.")
        run = self.context
        (run.folder / "logs").mkdir(parents=True, exist_ok=True)
        context = mp.get_context(run.start_method)
        departed = torch.zeros(len(run.roles), dtype=torch.uint8).share_memory_()  # type: ignore[no-untyped-call]
        watch: RankMonitor | None = None
        network = fork_server.network()
        self.sink.note("network", network.level)
        rule = rule_of(network, run.host_network_refused)
        is_spawned = run.start_method == "spawn"
        joined = network.server_pid if network.level == "namespace" and is_spawned else None
        try:
            self.members = []
            for node in self.nodes:
                node.share(function, shared)
            for index in range(len(run.roles)):
                plan = RankPlan(index, run, departed, TraceMemory(), rule, os.getpid() if is_spawned else None)
                place = index * (len(self.nodes) + 1) // len(run.roles)
                self.members.append(
                    self._start_on(self.nodes[place - 1], plan)
                    if place
                    else self._start(context, plan, function, shared, joined)
                )
            self.sink.ranks([member.row() for member in self.members])
            watch = RankMonitor(
                self.members, run, self.sink, self.disturbance, self.stop_requested, departed, expendable
            )
            watch.until_done()
            self.execution_time_s = watch.progress.execution_time_s
        finally:
            self._end_all(watch)

    def _start_on(self, node: Node, plan: RankPlan) -> RankHandle:
        """Start one rank on another node."""
        ours, theirs = Pipe()
        process = node.start(plan, theirs)
        plan.trace.close()
        return RankHandle(plan, process, ours)

    def _start(
        self, context: Any, plan: RankPlan, function: Callable[..., None], shared: tuple[Any, ...], joined: int | None
    ) -> RankHandle:
        """Start one rank. A spawned one first joins the namespaces of process `joined`; one with GPUs first hides all
        others, as the fork server's environment is older than the run.
        """
        ours, theirs = context.Pipe()
        call = (plan, theirs, function, shared)
        target: Callable[..., None] = rank_main
        arguments: tuple[Any, ...] = call
        if joined is not None or plan.context.visible_gpus:
            target, arguments = call_inside, (joined, plan.context.visible_gpus, PickledCall(rank_main, *call))
        process = context.Process(target=target, args=arguments, name=plan.role)
        try:
            process.start()
        except (OSError, EOFError) as error:
            if sentence := "" if plan.parent_pid else fork_server.end_of_server():
                raise RankFailed(fork_server.NAME, sentence) from error
            raise
        plan.trace.close()
        theirs.close()  # so that our end reads end-of-file when the rank has exited
        return RankHandle(plan, process, ours)

    def _end_all(self, watch: RankMonitor | None) -> None:
        """Stop all live ranks and record that in the store; runs on every exit path."""
        for node in self.nodes:
            node.end_ranks(GRACE_S)
        left = end_processes(
            [
                member.pid
                for member in self.members
                if not member.remote and (member.process.exitcode is None or not member.exit_is_known)
            ],
            GRACE_S,
        )
        if watch:
            watch.take_last_words()
        for member in self.members:
            member.channel.close()
            member.process.join(timeout=0.5)
            if member.state not in ("done", "failed"):
                member.state = "ended"
        self.sink.ranks([member.row() for member in self.members])
        if left:
            self.sink.event("rank outlived kill", f"These pids are still running: {', '.join(map(str, left))}.")
        else:
            remove_files(self.context.folder, is_meeting_file)
            remove_empty(self.context.folder)
