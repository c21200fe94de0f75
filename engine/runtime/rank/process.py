"""The process of a rank: set-up around the call of a method's function.

All its messages go through its own channel to the worker.
"""

import os
import random
import re
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np
import torch
import torch.multiprocessing as mp

from engine.data.tensors import finish
from engine.errors import EngineError, PeerLost, RunFailed
from engine.hang.stacks import record_collectives, write_collectives, write_stacks_on_signal
from engine.home import DATA
from engine.runtime.rank import fork_server
from engine.runtime.rank.channel_recorder import ChannelRecorder, Done, Failed, Go, Hello, Meeting, Message, Said
from engine.runtime.rank.rank import Rank, RunContext
from engine.seeding import DROPOUT, seed_of
from engine.system.network_isolation import ListenRule, join, obey
from engine.system.out_of_memory import gpu_failure, gpu_met, gpu_of, limit_met, memory_cause, words_of
from engine.system.processes import describe_exit, die_with_parent
from engine.system.run_files import has_reader
from engine.trace.ring import TraceMemory, TraceWriter

_LOST = re.compile(r"gloo.*Connection (reset|closed) by peer")


@dataclass(frozen=True)
class RankPlan:
    """The worker's settings for one rank, fixed before it starts."""

    index: int
    context: RunContext
    departed: torch.Tensor
    trace: TraceMemory
    listening: ListenRule
    parent_pid: int | None
    """The worker, if it is the direct parent (spawn); None under a fork server, which dies with the worker."""

    @property
    def role(self) -> str:
        return self.context.roles[self.index]

    @property
    def device(self) -> str:
        return self.context.devices[self.index]


def rank_main(plan: RankPlan, channel: Connection, function: Callable[..., None], shared: tuple[Any, ...]) -> None:
    """Run one rank: set up the process, call the function, report the result to the worker."""
    write_stacks = _settle(plan)
    sending = threading.Lock()

    def send(message: Message) -> None:
        with sending:
            channel.send(message)

    def meet(name: str) -> float:
        send(Meeting(name))
        answer = channel.recv()
        assert isinstance(answer, Go) and answer.name == name, f"expected to be let through {name!r}, got {answer!r}"
        return answer.at

    send(Hello(os.getpid(), fork_server.has_loaded()))
    is_read = partial(has_reader, plan.context.folder)
    recorder = ChannelRecorder(send, trace=TraceWriter(plan.trace.memory), write_stacks=write_stacks, is_read=is_read)
    rank = Rank(
        plan.index,
        plan.context,
        recorder,
        meet,
        lambda zero: recorder.start(zero, plan.context.time_before_s),
        departed=plan.departed,
        say=lambda kind, detail: send(Said(kind, detail)),
        tell_saved=send,
    )
    try:
        function(rank, *shared)
        finish(rank.device)  # a GPU's last work counts as the rank's, and so does its failure
    except BaseException as error:
        traceback.print_exc()
        _end(
            recorder,
            send,
            Failed(_sentence(plan, error), traceback.format_exc(), time.monotonic(), _is_echo(error)),
        )
        sys.stderr.flush()
        os._exit(1)  # a broken rank must not hang in the exit handlers of threads or libraries
    ended_at = time.monotonic()
    recorder.summarize("end")
    _end(recorder, send, Done(ended_at))


def _end(recorder: ChannelRecorder, send: Callable[[Message], None], last: Done | Failed) -> None:
    try:
        recorder.close(last.at)
        send(last)
    except OSError:
        pass  # the worker has exited, so no one receives this


def _is_echo(error: BaseException) -> bool:
    """Return whether an error is only the loss of another rank."""
    return isinstance(error, PeerLost) or bool(_LOST.search(str(error)))


def _sentence(plan: RankPlan, error: BaseException) -> str:
    words, gpu = words_of(error), gpu_of(plan.device, plan.context.visible_gpus)
    if isinstance(error, EngineError):
        return f"{error}{limit_met(words)}{'' if isinstance(error, PeerLost) else gpu_met(words, gpu)}"
    if failure := gpu_failure(words, gpu):
        return f"{plan.role} (rank {plan.index}) {failure}"
    cause = memory_cause(words)
    return f"{plan.role} raised {type(error).__name__}: {error}".rstrip(": ") + (f".{cause}" if cause else "")


def _settle(plan: RankPlan) -> Callable[[], None]:
    """Make this process a rank: it dies with its parent, writes its own log, sees its GPUs, and uses its threads and
    seed. Return the function that writes its stacks.
    """
    die_with_parent(plan.parent_pid)
    obey(plan.listening)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    run = plan.context
    log = os.open(run.folder / "logs" / f"{plan.role}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for descriptor in (1, 2):
        os.dup2(log, descriptor)
    os.close(log)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    _hide_deprecations()
    record_collectives()
    write_stacks = write_stacks_on_signal(run.folder, plan.role)
    os.environ["CUDA_VISIBLE_DEVICES"] = run.visible_gpus
    if run.data_folder:
        os.environ[DATA] = run.data_folder
    torch.set_num_threads(run.threads_of(plan.index))
    drawn = seed_of(run.seed, DROPOUT, run.place_of(plan.index))
    torch.manual_seed(drawn)
    random.seed(drawn)
    np.random.seed(drawn % 2**32)

    def write_evidence() -> None:
        write_stacks()
        write_collectives(run.folder, plan.role)

    return write_evidence


def _hide_deprecations() -> None:
    """Keep deprecations out of the log: who reads it can't act on them, and torch shows some whatever the filters."""
    show = warnings.showwarning

    def shown(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if not issubclass(category, DeprecationWarning):
            show(message, category, *where, **more)

    warnings.showwarning = shown


# ---- The start of a rank that enters its run's namespaces and sees its GPUs before its call is unpickled -----------
# Torch-free and light.


class PickledCall:
    """A call that is unpickled only when made, so that a process can prepare before the call's imports and tensors."""

    def __init__(self, function: Callable[..., None], *arguments: Any) -> None:
        self._call = function, arguments

    def __reduce__(self) -> tuple[Any, ...]:
        return _Packed, (bytes(ForkingPickler.dumps(self._call)),)


class _Packed:
    def __init__(self, call: bytes) -> None:
        self._call = call

    def __call__(self) -> None:
        function, arguments = ForkingPickler.loads(self._call)
        function(*arguments)


def call_inside(pid: int | None, visible_gpus: str, call: Callable[[], None]) -> None:
    """Join the namespaces of process `pid`, if any, show this process its GPUs alone, then make the call.

    If joining fails, the rank must not listen. Unpickling a GPU tensor initializes CUDA, which reads
    CUDA_VISIBLE_DEVICES only once.
    """
    try:
        if pid is not None:
            join(pid)
    except OSError as error:
        print(f"Could not join the network namespace of process {pid}: {error}", file=sys.stderr)
    os.environ["CUDA_VISIBLE_DEVICES"] = visible_gpus
    call()


# ---- A new process that a rank starts for a while, as published code does; it dies with the rank -------------------

LEAVE_S = 30.0
"""Seconds that a process has to exit after its last message."""


@contextmanager
def spawned(name: str, function: Callable[..., None], *given: Any) -> Iterator[Iterator[Any]]:
    """Call `function(send, *given)` in a process started by `spawn`; yield its messages as they arrive.

    Raises RunFailed if the process does not return normally; it never outlives the block or its rank.
    """
    context = mp.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(
        target=_carry_out, args=(os.getpid(), torch.get_num_threads(), theirs, function, given), name=name
    )
    process.start()
    theirs.close()
    try:
        yield _messages(ours)
        process.join(LEAVE_S)
        if process.exitcode != 0:
            how = "did not end" if process.exitcode is None else describe_exit(process.exitcode)
            raise RunFailed(f"{name} {how} before its work was done; see its log.")
    finally:
        process.kill()
        ours.close()


def _messages(channel: Connection) -> Iterator[Any]:
    while True:
        try:
            yield channel.recv()
        except EOFError:
            return


def _carry_out(
    parent_pid: int, threads: int, channel: Connection, function: Callable[..., None], given: tuple[Any, ...]
) -> None:
    die_with_parent(parent_pid)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(threads)
    function(channel.send, *given)
