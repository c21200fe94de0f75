"""A run as its worker and its ranks know it, and a rank as a method sees it: its locks, semaphores and checkpoints.

A rank never opens the database; everything it reports goes through its own channel to the worker.
"""

import fcntl
import os
import select
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from multiprocessing import Pipe
from pathlib import Path
from typing import Any, Literal, Protocol

import torch

from engine.config import Config
from engine.data.tensors import finish
from engine.errors import DataError
from engine.hang.watch import HangLimits
from engine.home import DATA
from engine.recorder import Recorder
from engine.registry import server_roles
from engine.seeding import place_of, seed_of
from engine.store.timestamps import now
from engine.system.checkpoint_state import PARTS, POSITION, Checkpoint, publish
from engine.system.run_files import LOCK_SUFFIX
from engine.trace.layout import EVERYBODY


@dataclass(frozen=True)
class RunContext:
    """What the worker knows of its run from the start: made once, and passed as one object to the monitors and to each
    rank.
    """

    roles: Sequence[str]
    devices: Sequence[str]
    threads: int
    """Threads of each rank that trains; servers have one."""
    seed: int
    folder: Path
    """The run's folder."""
    start_method: Literal["forkserver", "spawn"] = "forkserver"
    servers: Collection[str] = field(default_factory=server_roles)
    """The roles that serve the others; by default those of all experiments."""
    visible_gpus: str = ""
    """The run's GPUs, as CUDA_VISIBLE_DEVICES names them."""
    began: float = field(default_factory=time.monotonic)
    """The time (monotonic, s) at which the worker accepted the run; start-up counts from here."""
    resume_from: Path | None = None
    """The checkpoint that this run resumes."""
    time_before_s: float = 0.0
    """The training time of the checkpoint; a resumed run's points count from there."""
    uid: str = ""
    """Random id of the run, which its checkpoints name."""
    data_folder: str | None = field(default_factory=lambda: os.environ.get(DATA))
    """The data folder, if not the home's: a fork server that started earlier may have another one."""
    host_network_refused: str = ""
    """Why ranks may not listen on the machine's network if they can't have their own; empty if they may."""
    end_when_hung: bool = False
    """Whether the run fails when the hang doctor finds that no rank continues."""
    hang_limits: HangLimits | None = None
    """When a rank counts as standing still; None for the usual limits."""
    interface: str = "lo"
    """Network interface of the connections between ranks."""
    meeting_point: tuple[str, int] | None = None
    """Address of the store at which ranks on several nodes meet; None if they are all on one, and meet through files.
    """

    @classmethod
    def of(cls, config: Config, folder: Path, gpus: Sequence[str], **known: Any) -> "RunContext":
        """Return the context of a run of these settings; its ranks are placed round-robin over the GPUs, or all on the
        CPU without any.
        """
        count, every = min(len(gpus), config.max_gpus), range(len(config.roles))
        devices = [f"cuda:{index % count}" if count else "cpu" for index in every]
        return cls(
            config.roles,
            ["mps" for _ in every] if config.device == "mps" else devices,
            config.threads(),
            config.seed,
            folder,
            config.start_method,
            config.server_roles,
            ",".join(gpus),
            **known,
        )

    def threads_of(self, index: int) -> int:
        """Return the number of threads of a rank."""
        return 1 if self.roles[index] in self.servers else self.threads

    def place_of(self, index: int) -> int:
        """Return a rank's index in its random streams (engine/seeding.py)."""
        return place_of(index, self.roles, self.servers)


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
    """The first argument of a method's function in each process; torch, NumPy and random are already seeded with this
    rank's dropout stream.
    """

    index: int
    context: RunContext
    recorder: Recorder
    meet: Meetings
    start: Callable[[float], None] = lambda zero: None
    """Starts the recorder's clock."""
    locks: Callable[[str], AbstractContextManager[Any]] | None = None
    """The source of locks, if not files."""
    departed: torch.Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.uint8))
    """uint8 [world] in shared memory: the worker sets the entry of a lost rank while the others continue."""
    say: Callable[[str, str], None] = lambda kind, detail: None
    """Adds to the run's events: a short event name and a sentence."""
    tell_saved: Callable[[Saved], None] | None = None
    """Tells the worker of a checkpoint; without a worker, it is published at once."""

    def __post_init__(self) -> None:
        self.role = self.context.roles[self.index]
        self.world = len(self.context.roles)
        self.device = torch.device(self.context.devices[self.index])
        self.folder = self.context.folder
        self.resume_from = self.context.resume_from
        self.time_before_s = self.context.time_before_s
        self.meeting_point = self.context.meeting_point

    def publish(self, saved: Saved) -> None:
        """Make a checkpoint the run's last one, once all points that it includes are stored."""
        if self.tell_saved:
            self.tell_saved(saved)
        else:
            publish(self.folder, saved.name)

    def seed_of(self, stream: int, *further: int) -> int:
        """Return the seed of one of this rank's own streams."""
        return seed_of(self.context.seed, stream, self.context.place_of(self.index), *further)

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
        epoch, not per step. A GPU's work is done when its rank arrives. The time counts in the phase `wait`.
        """
        finish(self.device)
        with self.recorder.phase("wait", name), self.recorder.operation("barrier", name, peer=EVERYBODY):
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


# ---- Semaphores between the ranks of a run: each release wakes one waiter, now or later ----------------------------
# A semaphore is a pipe that holds one byte per release. Unlike a lock or a named semaphore it has no owner and no name:
# killed processes leave nothing behind, and it wakes threads as well as processes.


class Semaphore:
    """A counting semaphore; passed to the ranks as an argument of `Ranks.run`. It holds up to about 60,000 releases."""

    def __init__(self) -> None:
        self._read_end, self._write_end = Pipe(duplex=False)
        os.set_blocking(self._read_end.fileno(), False)

    def release(self, times: int = 1) -> None:
        """Wake `times` waiters, now or later."""
        os.write(self._write_end.fileno(), b"\0" * times)

    def acquire(self, timeout_s: float) -> bool:
        """Wait for a release, and consume it; return False on a timeout."""
        descriptor, deadline = self._read_end.fileno(), time.monotonic() + timeout_s
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        while poll.poll(max(0.0, 1000 * (deadline - time.monotonic()))):
            try:
                return bool(os.read(descriptor, 1))
            except BlockingIOError:  # another waiter was faster
                continue
        return False


# ---- Checkpoints of a run ------------------------------------------------------------------------------------------
# Its training state and position are in one file, which replaces the previous one at once. A rank writes the file under
# a temporary name; the worker renames it when all points that it includes are stored (`RunProgress`). A resumed run
# continues from the checkpoint, so a point that it includes but that died on the way to the store would be lost for
# good.

NONE: Mapping[int, int] = {}


class Checkpoints:
    """Saves a run's state every `every_s` seconds (0: never), in the rank that holds the state.

    Use: `if checkpoints.due(): checkpoints.save({...}, step=step, passes=passes, time_s=training_time)`.
    """

    def __init__(self, rank: Rank, every_s: float) -> None:
        self._rank = rank
        self._every_s = every_s
        self._saved_at = time.monotonic()
        self._count = 0

    def due(self) -> bool:
        """Return whether the next checkpoint is due."""
        return self._every_s > 0 and time.monotonic() - self._saved_at >= self._every_s

    def save(
        self,
        state: Mapping[str, Any],
        *,
        step: int,
        passes: float,
        time_s: float,
        steps: Mapping[int, int] = NONE,
    ) -> bool:
        """Write `state` (tensors and plain values); return False, and keep the previous one, if a tensor of it is not
        finite.

        `time_s` is the training time of the state, `steps` the last step that it includes of each rank that records
        steps. It includes what this rank has recorded so far.
        """
        self._saved_at = time.monotonic()
        if not all(_finite(value) for value in state.values()):
            return False
        self._count += 1
        path = self._rank.folder / PARTS.replace("*", str(self._count))
        position = asdict(Checkpoint(step, passes, time_s, now(), dict(steps), self._rank.context.uid))
        with self._rank.recorder.operation("other", "checkpoint"), path.open("wb") as file:
            torch.save({**state, POSITION: position}, file)
            file.flush()
            os.fsync(file.fileno())
        self._rank.recorder.flush()
        self._rank.publish(Saved(path.name, dict(steps)))
        return True


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Return the state saved by a run, on the CPU whatever device it was on; raises DataError if the file is missing or
    damaged.
    """
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, ValueError, KeyError) as error:
        raise DataError(
            f"The checkpoint {path.name} can't be read ({error}). Launch a new run instead of resuming this one."
        ) from error
    return state


def _finite(value: object) -> bool:
    if isinstance(value, torch.Tensor):
        return not value.is_floating_point() or bool(value.isfinite().all())
    return True
