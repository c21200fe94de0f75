"""The runner: the one process per store that claims queued runs, places them, and watches over their workers. Torch-free.

It may be killed at any moment: runs go on, and the next runner takes them over from what the store says.
"""

import logging
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from types import FrameType

from filelock import FileLock, Timeout

from engine.errors import RunnerError, StoreBusy, StoreError, StoreFull
from engine.home import ROOT, Home
from engine.notices.delivering import Delivering
from engine.runtime.ending import Endings
from engine.runtime.gpus import Gpus, NvmlGpus
from engine.runtime.inheritance import inherit
from engine.runtime.launcher import Launcher, LocalLauncher
from engine.runtime.logs import log_to_stdout
from engine.runtime.machine import Machine, machine
from engine.runtime.placement import Placement
from engine.runtime.processes import is_alive, me
from engine.runtime.referee import Referee
from engine.runtime.sampling import Sampler
from engine.runtime.slots import free_cores
from engine.runtime.usage import Usage
from engine.store import Reader, Store
from engine.store.records import ProcessIdentity, Run
from engine.upkeep.schedule import Schedule

log = logging.getLogger(__name__)

POLL_S = 0.05
BEAT_S = 1.0
SPARE_RETRY_S = 5.0
SPARE_CORES = 2
"""What a spare keeps busy while it loads: the worker and its fork server."""
TAKE_S = 0.5
"""So long a new runner tries to take the lock, which a mere look (`is_running`) holds for a moment."""

LAST_BREATH_S = 2.0
"""What a dead runner's threads, or a child between fork and exec, may still hold its lock."""

SEPARATE = "PARALLAB_RUNNER"
"""Set to `separate` where a service of the machine starts the runner and starts it again: then nothing of ours does."""

_started: list[subprocess.Popen[bytes]] = []
"""Runners that this process started: kept, so that one that ends is reaped and leaves no zombie."""


def is_running(home: Home, within_s: float = 0.0) -> bool:
    """Say whether a runner serves this home; one that has just died holds its lock for another moment, which `within_s` waits out."""
    if not home.runner_lock.exists():
        return False
    lock = FileLock(home.runner_lock)
    try:
        with lock.acquire(timeout=within_s):
            return False
    except Timeout:
        return True


def ensure_running(home: Home) -> bool:
    """Start a runner in the background where none serves `home`; return whether one was started.

    It gets a session of its own, so that Ctrl-C, a closed terminal or an ended console leave it alone.
    """
    home.create()
    if is_separate():
        return False
    _started[:] = [process for process in _started if process.poll() is None]
    if is_running(home, within_s=LAST_BREATH_S if has_died(home) else 0.0):
        return False
    with home.runner_log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "engine", "serve"],
            cwd=ROOT,
            env=os.environ | {"PARALLAB_HOME": str(home.path)},
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    _started.append(process)
    return True


def is_separate() -> bool:
    """Say whether a service of the machine sees to the runner."""
    return os.environ.get(SEPARATE) == "separate"


def has_died(home: Home) -> bool:
    """Say whether the store names a runner that is no more: it was killed, for one that ends signs off."""
    with Reader.open(home) as reader:
        row = reader.runner()
    return row is not None and not is_alive(row.process)


def serve(home: Home) -> None:
    """Serve `home` until asked to stop; raises RunnerError where another runner does already."""
    home.create()
    log_to_stdout()
    try:
        with FileLock(home.runner_lock).acquire(timeout=TAKE_S), Store.open(home) as store, Delivering(home, me()):
            launcher = LocalLauncher(home)
            try:
                Runner(home, store, launcher, machine(), schedule=Schedule.from_environment(home)).until_stopped()
            finally:
                launcher.close()
    except Timeout:
        held = _holder(home)
        raise RunnerError(
            f"A runner already serves {home.path}{held}. One is enough: launch runs and it will take them, or end it with the stop command."
        ) from None


def _holder(home: Home) -> str:
    try:
        with Reader.open(home) as reader:
            row = reader.runner()
    except StoreError:
        return ""
    return f" (pid {row.process.pid})" if row else ""


@dataclass
class Runner:
    """The loop: beat, look after live runs, place those of the queue, keep a spare warm."""

    home: Home
    store: Store
    launcher: Launcher
    machine: Machine
    leaving: bool = False
    beaten_at: float = 0.0
    spare_at: float = 0.0
    stopping: bool = False
    schedule: Schedule | None = None
    gpus: Gpus = field(default_factory=NvmlGpus)
    sampler: Sampler = field(default_factory=Sampler)
    usage: Usage = field(default_factory=Usage)
    endings: Endings = field(init=False)
    referee: Referee = field(init=False)

    def __post_init__(self) -> None:
        self.placement = Placement(self.home, self.store, self.launcher, self.machine, self.gpus)
        self.endings = Endings(self.store, self.launcher)
        self.referee = Referee(self.home, self.store)

    def until_stopped(self) -> None:
        """Run until SIGTERM or SIGINT (runs go on), or until a stop was asked for and no run is left."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._leave)
        self.endings.note_last_runner()
        self.store.register_runner(me(), cores=self.machine.cores, gpus=len(self.machine.gpus))
        log.info("runner %d serves %s: %d cores, %d GPUs", os.getpid(), self.home.path, self.machine.cores, len(self.machine.gpus))
        try:
            inherit(self.home, self.endings)
        except (StoreBusy, StoreFull) as trouble:
            log.warning("what the last runner left is not looked after: %s", trouble)
        while not self.leaving:
            try:
                if not self.step():
                    break
            except (StoreBusy, StoreFull) as trouble:  # both pass: a runner that ended now would help nobody
                log.warning("%s", trouble)
                time.sleep(BEAT_S)
            time.sleep(POLL_S)
        self.store.remove_runner()
        log.info("runner ends%s", "; its runs go on" if self.leaving else "")

    def step(self) -> bool:
        """Do once all that is due; return False when a stop was asked for, and no run is left nor anything of one that has ended."""
        self._beat()
        self.sampler.look(self.store)
        self.usage.look(self.store)
        holders = self.endings.holders()
        self.referee.look(holders)
        if self.stopping:
            return bool(holders or self.endings.watched)
        holders += self.placement.claim(holders)
        self._keep_spare(holders)
        return True

    def _leave(self, number: int, frame: FrameType | None) -> None:
        self.leaving = True

    def _beat(self) -> None:
        if time.monotonic() - self.beaten_at >= BEAT_S:
            self.stopping = self.store.beat_runner(warm=self.launcher.warm)
            self.beaten_at = time.monotonic()
            if self.schedule:
                self.schedule.look()

    def _keep_spare(self, holders: list[Run]) -> None:
        """Prepare a spare while the cores it loads on are free: on a run's own cores it would falsify the run's times."""
        if time.monotonic() - self.spare_at < SPARE_RETRY_S or (holders and free_cores(holders, self.machine) < SPARE_CORES):
            return
        if any(run.status == "starting" or run.exclusive for run in holders):
            return
        self.spare_at = time.monotonic()
        self.launcher.reserve()


def runner_process(home: Home) -> ProcessIdentity | None:
    """Return the live runner of `home`, or None."""
    with Reader.open(home) as reader:
        row = reader.runner()
    return row.process if row and is_alive(row.process) else None
