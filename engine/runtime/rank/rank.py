"""One rank from the inside: what a method is handed, and the few steps round its call.

A rank never opens the database; all it has to say goes through one channel of its own to the worker.
"""

import fcntl
import os
import random
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from engine.errors import EngineError, PeerLost
from engine.home import DATA
from engine.recorder import Recorder
from engine.runtime.rank import fork_server
from engine.runtime.rank.channel_recorder import ChannelRecorder, Flush
from engine.seeding import DROPOUT, seed_of
from engine.system.network_isolation import ListenRule, obey
from engine.system.out_of_memory import limit_met, memory_cause, words_of
from engine.system.processes import die_with_parent
from engine.system.run_files import LOCK_SUFFIX


@dataclass(frozen=True)
class Hello:
    """The first word of a rank: who it is and what it found."""

    pid: int
    preloaded: bool


@dataclass(frozen=True)
class Meeting:
    """A rank waits at a barrier."""

    name: str


@dataclass(frozen=True)
class Said:
    """A rank has something to say that belongs among the run's events."""

    kind: str
    detail: str


@dataclass(frozen=True)
class Done:
    """A rank's function returned, at this moment of the monotonic clock."""

    at: float


@dataclass(frozen=True)
class Failed:
    """A rank's function raised."""

    sentence: str
    traceback: str
    at: float
    echo: bool = False
    """Whether it only lost another rank, whose own end is the cause."""


@dataclass(frozen=True)
class Go:
    """The worker's answer to a meeting: all ranks are there; `at` is one moment for all."""

    name: str
    at: float


Message = Hello | Flush | Meeting | Said | Done | Failed


class Meetings(Protocol):
    """Where ranks wait for each other; returns the moment (monotonic, s) at which all were there."""

    def __call__(self, name: str) -> float: ...


@dataclass
class Rank:
    """What a method's function gets as its first argument in each process."""

    index: int
    role: str
    world: int
    device: torch.device
    seed: int
    """The config's seed; torch, NumPy and random are seeded with this rank's dropout stream already."""
    recorder: Recorder
    folder: Path
    """The run's folder."""
    meet: Meetings
    start: Callable[[float], None] = lambda zero: None
    """Starts the recorder's clock."""
    locks: Callable[[str], AbstractContextManager[Any]] | None = None
    """Where locks come from, other than files."""
    departed: torch.Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.uint8))
    """uint8 [world] in shared memory: the worker sets a rank's entry when that rank is gone while the others go on."""
    say: Callable[[str, str], None] = lambda kind, detail: None
    """Adds to the run's events: what happened (a few words) and a sentence."""
    resume_from: Path | None = None
    """The checkpoint that this run goes on from."""
    place: int = 0
    """This rank's place in its streams (engine/seeding.py)."""

    def seed_of(self, stream: int, *further: int) -> int:
        """Return the seed of one of this rank's own streams."""
        return seed_of(self.seed, stream, self.place, *further)

    def ready(self) -> float:
        """Say that this rank is set up and wait until all are; execution time and phases count from here. Call once.

        Return that moment (monotonic, s), from which points count their time too.
        """
        zero = self.meet("ready")
        self.start(zero)
        return zero

    def gone(self) -> list[int]:
        """Return the indices of the ranks that died while this run goes on without them."""
        return [index for index, flag in enumerate(self.departed.tolist()) if flag]

    def barrier(self, name: str) -> None:
        """Wait until every rank has come to the barrier of this name. A round trip through the worker: once an epoch,
        not once a step.
        """
        self.meet(name)

    def lock(self, name: str) -> AbstractContextManager[Any]:
        """Return a lock between the run's ranks; the system frees it when its holder dies. Reuse the object: opening it
        costs a file.
        """
        return self.locks(name) if self.locks else FileLock(self.folder / f"{name}{LOCK_SUFFIX}")


class FileLock:
    """A lock on a file between processes (flock): about 1 µs when free, freed by the kernel when its holder dies."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)

    def __enter__(self) -> None:
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)


@dataclass(frozen=True)
class RankPlan:
    """What the worker decided for one rank before it started."""

    index: int
    role: str
    world: int
    device: str
    threads: int
    seed: int
    place: int
    folder: Path
    visible_gpus: str
    departed: torch.Tensor
    time_before_s: float
    resume_from: Path | None
    data_folder: str | None
    """Where data sets lie, where the worker's environment names a folder: a fork server that started earlier may have
    another one.
    """
    listening: ListenRule
    parent_pid: int | None
    """The worker, where it is the parent itself (spawn); None under a fork server, which dies with the worker."""


def rank_main(plan: RankPlan, channel: Connection, function: Callable[..., None], shared: tuple[Any, ...]) -> None:
    """Carry out one rank: settle the process, call the function, tell the worker how it ended."""
    _settle(plan)
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
    recorder = ChannelRecorder(send)
    rank = Rank(
        plan.index,
        plan.role,
        plan.world,
        torch.device(plan.device),
        plan.seed,
        recorder,
        plan.folder,
        meet,
        lambda zero: recorder.start(zero, plan.time_before_s),
        departed=plan.departed,
        say=lambda kind, detail: send(Said(kind, detail)),
        resume_from=plan.resume_from,
        place=plan.place,
    )
    try:
        function(rank, *shared)
    except BaseException as error:
        traceback.print_exc()
        _end(
            recorder,
            send,
            Failed(_sentence(plan.role, error), traceback.format_exc(), time.monotonic(), isinstance(error, PeerLost)),
        )
        sys.stderr.flush()
        os._exit(1)  # a broken rank must not hang in its threads' or libraries' exit handlers
    _end(recorder, send, Done(time.monotonic()))


def _end(recorder: ChannelRecorder, send: Callable[[Message], None], last: Done | Failed) -> None:
    try:
        recorder.close(last.at)
        send(last)
    except OSError:
        pass  # the worker has gone, and with it everyone who would listen


def _sentence(role: str, error: BaseException) -> str:
    words = words_of(error)
    if isinstance(error, EngineError):
        return f"{error}{limit_met(words)}"
    cause = memory_cause(words)
    return f"{role} raised {type(error).__name__}: {error}".rstrip(": ") + (f".{cause}" if cause else "")


def _settle(plan: RankPlan) -> None:
    """Make this process a rank: it dies with its parent, writes its own log, sees its GPUs, keeps to its threads and
    seed.
    """
    die_with_parent(plan.parent_pid)
    obey(plan.listening)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    log = os.open(plan.folder / "logs" / f"{plan.role}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for descriptor in (1, 2):
        os.dup2(log, descriptor)
    os.close(log)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    os.environ["CUDA_VISIBLE_DEVICES"] = plan.visible_gpus
    if plan.data_folder:
        os.environ[DATA] = plan.data_folder
    torch.set_num_threads(plan.threads)
    drawn = seed_of(plan.seed, DROPOUT, plan.place)
    torch.manual_seed(drawn)
    random.seed(drawn)
    np.random.seed(drawn % 2**32)
