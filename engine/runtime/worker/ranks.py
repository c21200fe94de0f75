"""The ranks of one run from the worker's side: start them together, stop them all in any case.

`method.run(config, ranks)` calls `ranks.run(function, ...)`; the first failure is raised.
"""

import os
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from multiprocessing import Pipe
from pathlib import Path
from typing import Any, Literal

import torch
import torch.multiprocessing as mp

from engine.errors import RankFailed
from engine.hang.stacks import remove_empty
from engine.hang.watch import HangLimits
from engine.home import DATA
from engine.registry import server_roles
from engine.runtime.nodes.node import Node
from engine.runtime.rank import fork_server
from engine.runtime.rank.process import PickledCall, RankPlan, call_inside, rank_main
from engine.runtime.rank.rank import Rank
from engine.runtime.usage import Disturbance
from engine.runtime.worker.rank_handle import RankHandle
from engine.runtime.worker.rank_monitor import RankMonitor
from engine.runtime.worker.sink import Sink
from engine.runtime.worker.stop_request import StopRequested
from engine.seeding import place_of
from engine.system.network_isolation import ListenRule, rule_of
from engine.system.processes import end_processes
from engine.system.run_files import remove_meeting_files
from engine.trace.ring import TraceMemory

__all__ = ["Rank", "Ranks", "StopRequested"]

GRACE_S = 2.0
"""Seconds that a rank has to exit after SIGTERM."""


@dataclass
class Ranks:
    """How to start a run's ranks, and after `run` the measured times."""

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
    """The time (monotonic, s) at which the worker accepted the run; start-up counts from here."""
    resume_from: Path | None = None
    """The checkpoint that this run resumes."""
    time_before_s: float = 0.0
    """The training time of the checkpoint; a resumed run's points count from there."""
    host_network_refused: str = ""
    """Why ranks may not listen on the machine's network if they can't have their own; empty if they may."""
    servers: Collection[str] = field(default_factory=server_roles)
    """The roles that serve the others; by default those of all experiments."""
    disturbance: Disturbance | None = None
    """Counts what others take from the run."""
    hang_limits: HangLimits | None = None
    """When a rank counts as standing still; None for the usual limits."""
    end_when_hung: bool = False
    """Whether `run` raises RankFailed when the hang doctor finds that no rank continues."""
    nodes: Sequence[Node] = ()
    """Further nodes; each gets as many neighbouring ranks as this one, or one more."""
    meeting_point: tuple[str, int] | None = None
    """Address at which ranks on several nodes meet."""
    interface: str = "lo"
    """Network interface of the connections between ranks."""
    run_uid: str = ""
    """Random id of the run, which its checkpoints name."""
    execution_time_s: float | None = None
    members: list[RankHandle] = field(default_factory=list)

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
        (self.folder / "logs").mkdir(parents=True, exist_ok=True)
        context = mp.get_context(self.start_method)
        departed = torch.zeros(len(self.roles), dtype=torch.uint8).share_memory_()  # type: ignore[no-untyped-call]
        watch: RankMonitor | None = None
        network = fork_server.network()
        self.sink.network(network)
        rule = rule_of(network, self.host_network_refused)
        joined = network.server_pid if network.level == "namespace" and self.start_method == "spawn" else None
        try:
            self.members = []
            for node in self.nodes:
                node.share(function, shared)
            for index, role in enumerate(self.roles):
                plan = self._plan(index, role, departed, rule)
                place = index * (len(self.nodes) + 1) // len(self.roles)
                self.members.append(
                    self._start_on(self.nodes[place - 1], plan)
                    if place
                    else self._start(context, plan, function, shared, joined)
                )
            self.sink.ranks([member.row() for member in self.members])
            watch = RankMonitor(
                self.members,
                self.sink,
                self.folder,
                self.began,
                self.stop_requested,
                departed,
                expendable,
                self.time_before_s,
                self.disturbance,
                self.hang_limits,
                self.end_when_hung,
            )
            watch.until_done()
            self.execution_time_s = watch.progress.execution_time_s
        finally:
            self._end_all(watch)

    def _plan(self, index: int, role: str, departed: torch.Tensor, rule: ListenRule) -> RankPlan:
        return RankPlan(
            index,
            role,
            len(self.roles),
            self.devices[index],
            1 if role in self.servers else self.threads,
            self.seed,
            place_of(index, self.roles, self.servers),
            self.folder,
            self.visible_gpus,
            departed,
            TraceMemory(),
            self.time_before_s,
            self.resume_from,
            os.environ.get(DATA),
            rule,
            os.getpid() if self.start_method == "spawn" else None,
            self.interface,
            self.meeting_point,
            self.run_uid,
        )

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
        if joined is not None or plan.visible_gpus:
            target, arguments = call_inside, (joined, plan.visible_gpus, PickledCall(rank_main, *call))
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
            remove_meeting_files(self.folder)
            remove_empty(self.folder)
