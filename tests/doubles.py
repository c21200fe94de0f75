"""Doubles of a worker's parts: ranks that are threads of this process and record to memory, and a sink of lists."""

import atexit
import shutil
import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Literal

import torch

from engine.recorder import MemoryRecorder, Point
from engine.runtime.nodes.node import Node
from engine.runtime.rank import fork_server
from engine.runtime.rank.rank import Rank, RunContext
from engine.runtime.worker.ranks import Ranks
from engine.seeding import DROPOUT
from engine.store.curve_records import MachineSample
from engine.store.records import RankBatch, RankRow
from engine.trace.health import Health
from engine.trace.layout import TraceWindow


def _folder_for_now() -> Path:
    """Return a new folder that is removed when this process ends."""
    folder = Path(mkdtemp(prefix="parallab-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@dataclass
class LocalRanks:
    """Runs a method's ranks as threads; one rank runs in the caller's own thread, so that seeds give the same draws as
    in a process.
    """

    roles: Sequence[str]
    device: str = "cpu"
    threads: int = 1
    seed: int = 0
    folder: Path = field(default_factory=_folder_for_now)
    recorders: dict[str, MemoryRecorder] = field(default_factory=dict)
    resume_from: Path | None = None
    time_before_s: float = 0.0
    events: list[tuple[str, str]] = field(default_factory=list)

    @property
    def devices(self) -> tuple[str, ...]:
        """The device of each rank."""
        return (self.device,) * len(self.roles)

    def run(self, function: Callable[..., None], *shared: Any, expendable: Collection[str] = ()) -> None:
        """Call `function(rank, *shared)` once per role; raise the first failure. Threads can't be killed, so
        `expendable` has no effect.
        """
        self._barrier = threading.Barrier(len(self.roles))
        self._locks: dict[str, threading.Lock] = {}
        self._failures: list[BaseException] = []
        torch.set_num_threads(self.threads)
        ranks = [self._rank(index, role) for index, role in enumerate(self.roles)]
        if len(ranks) == 1:
            torch.manual_seed(ranks[0].seed_of(DROPOUT))
            function(ranks[0], *shared)
            return
        threads = [threading.Thread(target=self._carry_out, args=(function, rank, shared)) for rank in ranks]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._failures:
            raise self._failures[0]

    def _rank(self, index: int, role: str) -> Rank:
        recorder = self.recorders[role] = MemoryRecorder()
        context = RunContext(
            self.roles,
            self.devices,
            self.threads,
            self.seed,
            self.folder,
            resume_from=self.resume_from,
            time_before_s=self.time_before_s,
        )

        def start(zero: float) -> None:
            recorder.started = zero - self.time_before_s

        return Rank(
            index,
            context,
            recorder,
            self._meet,
            start,
            locks=self._lock,
            say=lambda kind, detail: self.events.append((kind, detail)),
        )

    def _carry_out(self, function: Callable[..., None], rank: Rank, shared: tuple[Any, ...]) -> None:
        try:
            function(rank, *shared)
        except threading.BrokenBarrierError:
            pass  # another rank failed first, and its error is kept
        except BaseException as failure:
            self._failures.append(failure)
            self._barrier.abort()

    def _meet(self, name: str) -> float:
        self._barrier.wait()
        return time.monotonic()

    def _lock(self, name: str) -> AbstractContextManager[Any]:
        return self._locks.setdefault(name, threading.Lock())


def lone_rank(folder: Path, role: str = "trainer1", index: int = 0, world: int = 1, uid: str = "", **more: Any) -> Rank:
    """Return one of a run's ranks in this thread, without the others."""
    roles = tuple(role if place == index else f"other{place}" for place in range(world))
    context = RunContext(roles, ("cpu",) * world, 1, 0, folder, uid=uid)
    return Rank(index, context, MemoryRecorder(), lambda name: 0.0, **more)


def process_ranks(
    roles: Sequence[str],
    devices: Sequence[str],
    threads: int,
    seed: int,
    folder: Path,
    sink: "MemorySink",
    start_method: Literal["forkserver", "spawn"] = "forkserver",
    *,
    stop_requested: Callable[[], bool] = lambda: False,
    nodes: Sequence[Node] = (),
    **known: Any,
) -> Ranks:
    """Return ranks that are processes, as a worker starts them: forked where torch is loaded already."""
    if start_method == "forkserver":
        fork_server.start()
    context = RunContext(roles, devices, threads, seed, folder, start_method, **known)
    return Ranks(context, sink, stop_requested=stop_requested, nodes=nodes)


@dataclass
class MemorySink:
    """A sink that keeps everything in lists."""

    rows: dict[int, RankRow] = field(default_factory=dict)
    batches: list[RankBatch] = field(default_factory=list)
    run_points: list[Point] = field(default_factory=list)
    progress: tuple[int, int, str] = (0, 0, "")
    samples: list[MachineSample] = field(default_factory=list)
    events: list[tuple[str, str]] = field(default_factory=list)
    startup_time_s: float | None = None
    notes: dict[str, Any] = field(default_factory=dict)
    logs: dict[str, str] = field(default_factory=dict)
    windows: list[TraceWindow] = field(default_factory=list)
    healths: list[Health] = field(default_factory=list)
    requests: list[float] = field(default_factory=list)
    syncs: int = 0

    def ranks(self, rows: Sequence[RankRow]) -> None:
        self.rows |= {row.rank: row for row in rows}

    def log_file(self, source: str, path: str) -> None:
        self.logs[source] = path

    def note(self, name: str, value: Any) -> None:
        self.notes[name] = value

    def running(self, startup_time_s: float) -> None:
        self.startup_time_s = startup_time_s

    def write(
        self,
        batches: Sequence[RankBatch],
        run_points: Sequence[Point],
        progress: tuple[int, int, str],
        samples: Sequence[MachineSample],
        windows: Sequence[TraceWindow],
    ) -> None:
        self.batches += batches
        self.run_points += run_points
        self.progress = progress
        self.samples += samples
        self.windows += windows

    def trace_requests(self) -> list[float]:
        found, self.requests = self.requests, []
        return found

    def standstill(self, kind: str, sentence: str) -> None:
        self.events.append((kind, sentence))

    def health(self, health: Health) -> None:
        self.healths.append(health)

    def event(self, kind: str, detail: str) -> None:
        self.events.append((kind, detail))

    def values(self, metric: str, rank: int | None = None) -> list[float]:
        """Return one metric's values in order, of one rank or of all."""
        return [
            point.value
            for batch in self.batches
            if rank in (None, batch.rank)
            for point in batch.points
            if point.name == metric
        ]

    def phases(self) -> dict[int, dict[str, float]]:
        """Return the last phase totals of each rank."""
        return {batch.rank: dict(batch.phases) for batch in self.batches}

    def sync(self) -> None:
        self.syncs += 1
