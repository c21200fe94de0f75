"""A rank as a method sees it.

A rank never opens the database; everything it reports goes through its own channel to the worker.
"""

import fcntl
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch

from engine.data.tensors import finish
from engine.recorder import Recorder
from engine.seeding import seed_of
from engine.system.checkpoint_state import publish
from engine.system.run_files import LOCK_SUFFIX
from engine.trace.layout import EVERYBODY


class Meetings(Protocol):
    """The barrier of the ranks; returns the time (monotonic, s) at which all had arrived."""

    def __call__(self, name: str) -> float: ...


@dataclass(frozen=True)
class Saved:
    """A checkpoint that a rank has written to a file of the run's folder."""

    name: str
    steps: Mapping[int, int]
    """For each other rank, the last step that it includes."""


@dataclass
class Rank:
    """The first argument of a method's function in each process."""

    index: int
    role: str
    world: int
    device: torch.device
    seed: int
    """The config's seed; torch, NumPy and random are already seeded with this rank's dropout stream."""
    recorder: Recorder
    folder: Path
    """The run's folder."""
    meet: Meetings
    start: Callable[[float], None] = lambda zero: None
    """Starts the recorder's clock."""
    locks: Callable[[str], AbstractContextManager[Any]] | None = None
    """The source of locks, if not files."""
    departed: torch.Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.uint8))
    """uint8 [world] in shared memory: the worker sets the entry of a lost rank while the others continue."""
    say: Callable[[str, str], None] = lambda kind, detail: None
    """Adds to the run's events: a short event name and a sentence."""
    resume_from: Path | None = None
    """The checkpoint that this run resumes."""
    place: int = 0
    """This rank's index in its random streams (engine/seeding.py)."""
    interface: str = "lo"
    """The network interface of connections between ranks."""
    meeting_point: tuple[str, int] | None = None
    """Address of the store at which the ranks meet; None if they are all on one node, and meet through files."""
    time_before_s: float = 0.0
    """Training time of the checkpoint that this run resumes."""
    run: str = ""
    """Random id of the run, which its checkpoints name."""
    tell_saved: Callable[[Saved], None] | None = None
    """Tells the worker of a checkpoint; without a worker, it is published at once."""

    def publish(self, saved: Saved) -> None:
        """Make a checkpoint the run's last one, once all points that it includes are stored."""
        if self.tell_saved:
            self.tell_saved(saved)
        else:
            publish(self.folder, saved.name)

    def seed_of(self, stream: int, *further: int) -> int:
        """Return the seed of one of this rank's own streams."""
        return seed_of(self.seed, stream, self.place, *further)

    def ready(self) -> float:
        """Report that this rank is ready and wait until all are; execution time and phases count from here. Call once.

        Return that time (monotonic, s), from which points count their time too.
        """
        finish(self.device)
        with self.recorder.operation("barrier", "ready", peer=EVERYBODY):
            zero = self.meet("ready")
        self.start(zero)
        return zero

    def gone(self) -> list[int]:
        """Return the indices of the ranks that died while this run continues without them."""
        return [index for index, flag in enumerate(self.departed.tolist()) if flag]

    def barrier(self, name: str) -> None:
        """Wait until every rank has reached the barrier of this name. It is a round trip through the worker: use it per
        epoch, not per step. A GPU's work is done when its rank arrives.
        """
        finish(self.device)
        with self.recorder.operation("barrier", name, peer=EVERYBODY):
            self.meet(name)

    def lock(self, name: str) -> AbstractContextManager[Any]:
        """Return a lock between the run's ranks; the system frees it when its holder dies. Reuse the object: opening it
        costs a file.
        """
        return self.locks(name) if self.locks else FileLock(self.folder, name, self.recorder)


class FileLock:
    """A lock on a file between processes (flock): about 1 µs when free, freed by the kernel when its holder dies. Waits
    for it are traced.
    """

    def __init__(self, folder: Path, name: str, recorder: Recorder) -> None:
        self._descriptor = os.open(folder / f"{name}{LOCK_SUFFIX}", os.O_RDWR | os.O_CREAT, 0o600)
        self._name = name
        self._recorder = recorder

    def __enter__(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with self._recorder.operation("lock", self._name):
                fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)
