"""`python -m engine.runtime.command.attached`: the worker of a run that follows what a program writes that was started
elsewhere. Torch-free.
"""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from engine.errors import ConfigError
from engine.home import ROOT, Home
from engine.recorder import Point
from engine.registry import is_registered
from engine.runtime.command.sources.event_folders import begin_of
from engine.runtime.command.sources.readings import by_rank
from engine.runtime.command.sources.sources import Sources
from engine.runtime.usage import Disturbance, Telemetry
from engine.runtime.worker.progress_writer import HEARTBEAT_S, ProgressWriter
from engine.runtime.worker.session import Execution, disturbance_of, execute_given_run, home_of_worker
from engine.runtime.worker.sink import Sink, StopRequested, StopSwitch
from engine.store import Launch, Store
from engine.store.records import Demand, RankBatch, RankRow, Run
from engine.store.timestamps import now
from engine.store.worker_writes import StoreSink
from engine.system.processes import identity

FOLDER = "folder"
"""The setting of such a run: what it follows."""
QUIET_S, IDLE_S = 5.0, 1_800.0
"""Seconds without a new point after which it ends: where the processes that wrote the files have, and in any case."""


def attach(home: Home, folder: Path, *, name: str = "", owner: str = "") -> int:
    """Begin a run that follows the event files of a folder, in a worker of its own, and return its id.

    It takes no place in the queue, as it computes nothing. Raises ConfigError for a folder that is not there.
    """
    folder = folder.absolute()
    if not folder.is_dir():
        raise ConfigError.of(FOLDER, f"{folder} is no folder. Name the one that the program writes event files to.")
    experiment = folder.name or "attached"
    if is_registered(experiment):
        experiment = f"{experiment} (attached)"
    worker = subprocess.Popen(
        [sys.executable, "-m", "engine.runtime.command.attached", "--home", str(home.path)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert worker.stdin is not None
    with worker.stdin:  # a worker that gets no run ends
        with Store.open(home) as store, store.db.change():
            launch = Launch(experiment, {FOLDER: str(folder)}, owner, name=name, demand=Demand(0, 0, 1, 1))
            run_id = store.runs.add(launch)
            started = identity(worker.pid)
            if started is None or not store.claims.claim(run_id, started, []):
                raise ConfigError.of(FOLDER, f"The worker that follows {folder} ended at its start. Try again.")
        worker.stdin.write(f"{run_id}\n".encode())
    worker.returncode = 0  # it outlives this process; nothing waits for it
    return run_id


def followed_of(run: Run) -> Path | None:
    """Return the folder that such a run follows; None for another run."""
    is_attached = run.command is None and run.demand.cores == 0 and FOLDER in run.config
    return Path(str(run.config[FOLDER])) if is_attached else None


def sources_of(folder: Path, followed: Path) -> Sources:
    """Return the sources of such a run, whose folder is the first."""
    return Sources(folder, followed, since=begin_of(followed) or time.time(), takes_all=True)


def execution_of(store: Store, run: Run, folder: Path, began: float, switch: StopSwitch) -> "AttachedExecution":
    """Return the execution of such a run."""
    followed = Path(str(run.config[FOLDER]))
    return AttachedExecution(followed, folder, StoreSink(store.db, run.id), switch, disturbance_of(run), began)


@dataclass
class AttachedExecution(Execution):
    """A run that follows a folder until its program ends."""

    followed: Path
    folder: Path
    sink: Sink
    switch: StopSwitch
    disturbance: Disturbance
    began: float
    seconds: float | None = None

    def run(self) -> None:
        """Follow the folder; raises StopRequested."""
        sources = sources_of(self.folder, self.followed)
        progress = _AttachedProgress(self, sources)
        progress.begin(time.monotonic())
        self.disturbance.begin([os.getpid()])
        try:
            while not progress.is_over():
                if self.switch.is_requested():
                    raise StopRequested("The run was asked to stop.")
                progress.write_if_due()
                time.sleep(0.0 if sources.behind else HEARTBEAT_S / 2)
        finally:
            self.seconds = progress.execution_time_s = max(0.0, time.time() - sources.since)
            while sources.behind:
                progress.write()
            progress.write(final=True)
            for sentence in sources.left_out:
                print(sentence, flush=True)

    @property
    def execution_time_s(self) -> float | None:
        """Return the time from the begin of the first file to the end."""
        return self.seconds


class _AttachedProgress(ProgressWriter):
    """What was read so far."""

    def __init__(self, run: AttachedExecution, sources: Sources) -> None:
        super().__init__(run.folder, run.began, run.sink, run.disturbance, Telemetry([]))
        self.sources = sources
        self.grown_at = time.monotonic()
        self.last_step: int | None = None

    def is_over(self) -> bool:
        """Return whether nothing more is to be expected."""
        quiet_s = time.monotonic() - self.grown_at
        writers = self.sources.writers
        have_ended = bool(writers) and not any(Path(f"/proc/{pid}").exists() for pid in writers)
        return not self.sources.behind and quiet_s > (QUIET_S if have_ended else IDLE_S)

    def collect(self, final: bool) -> tuple[list[RankBatch], list[Point]]:
        """Return new points, those of ranks as batches."""
        readings = [*chain.from_iterable(self.sources.rest() if final else [self.sources.poll()])]
        of_ranks = by_rank(readings)
        if readings:
            self.grown_at = time.monotonic()
            self.last_step = max(self.last_step or 0, *(point.step for _, _, point in readings))
        batches = [RankBatch(rank, points) for rank, points in of_ranks.items() if rank is not None]
        return batches, of_ranks.get(None, [])

    def rows(self) -> list[RankRow]:
        """Return the follower as the one rank."""
        return [RankRow(0, "reader", os.getpid(), "cpu", "running", self.last_step, now(), None)]

    def totals(self) -> tuple[int, int, str]:
        """Return how far the program says it is."""
        return self.sources.progress

    def note_use(self) -> None:
        """Do nothing: the program's processes may be anywhere."""

    def note_stored(self, batches: Sequence[RankBatch], final: bool) -> None:
        """Do nothing: the program keeps its checkpoints itself."""


if __name__ == "__main__":
    execute_given_run(home_of_worker(), execution_of)
