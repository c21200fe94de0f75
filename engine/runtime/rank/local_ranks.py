"""The ranks' test double: every rank is a thread of this process and records to memory."""

import atexit
import shutil
import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import torch

from engine.recorder import MemoryRecorder
from engine.registry import server_roles
from engine.runtime.rank.rank import Rank
from engine.seeding import DROPOUT, place_of


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

        def start(zero: float) -> None:
            recorder.started = zero - self.time_before_s

        device = torch.device(self.device)
        return Rank(
            index,
            role,
            len(self.roles),
            device,
            self.seed,
            recorder,
            self.folder,
            self._meet,
            start,
            locks=self._lock,
            say=lambda kind, detail: self.events.append((kind, detail)),
            resume_from=self.resume_from,
            place=place_of(index, self.roles, server_roles()),
            time_before_s=self.time_before_s,
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
