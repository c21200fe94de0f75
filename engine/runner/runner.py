"""The runner: the single process per store that claims queued runs, places them, and supervises their workers.
Torch-free.

It may be killed at any time: runs continue, and the next runner takes them over from the store.
"""

import logging
import os
import signal
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from filelock import FileLock, Timeout

from engine import __version__
from engine.access.rules import Program
from engine.cluster.supervisor import cluster_thread
from engine.errors import RunnerError, StoreBusy, StoreError, StoreFull
from engine.home import Home
from engine.notices.delivery import delivery_thread
from engine.notices.public_url import public_url
from engine.queue.slots import free_cores
from engine.runner.placement import Launcher, LocalLauncher, Placement
from engine.runner.run_supervisor import Endings
from engine.runner.schedulers import Referee, Repeats, Silence
from engine.runtime.usage import Telemetry
from engine.runtime.worker.environment import is_replaced, version_on_disk
from engine.store import Reader, Store
from engine.store.records import Run
from engine.system.machine import Gpus, Machine, NvmlGpus, machine
from engine.system.network_isolation import LEVEL_WORDS, machine_level
from engine.system.processes import is_foreign, me
from engine.system.run_files import log_to_stdout, size_on_disk
from engine.system.runner_process import announce, is_served, refuse_beside_foreign_runs
from engine.transfer.import_process import clear_killed
from engine.upkeep.backups import Schedule
from engine.upkeep.leftovers import clean, leftovers
from engine.upkeep.private_home import close_home

# ---- Disk usage of runs, measured by the runner for changed runs only, so that quotas need no full scan ------------
# Torch-free.

EVERY_S = 20.0
"""Maximum age of a live run's measurement."""
AT_ONCE = 100
"""Runs to measure per round, so that the first scan of a large home blocks nothing."""


class Usage:
    """Measures changed runs, at most once in `EVERY_S`, and immediately again while more are due."""

    def __init__(self) -> None:
        self._next_at = 0.0

    def look(self, store: Store) -> int:
        """Measure due runs and return their number."""
        if time.monotonic() < self._next_at:
            return 0
        changed = store.disk.unmeasured(AT_ONCE)
        if changed:
            store.disk.note([(run, folder_bytes(store.db.home.run_folder(run.run_id))) for run in changed])
        if len(changed) < AT_ONCE:
            self._next_at = time.monotonic() + EVERY_S
        return len(changed)


def folder_bytes(folder: Path) -> int:
    """Return the bytes of all files below a folder, without following links; 0 if it doesn't exist. Ignores files
    deleted meanwhile.
    """
    return sum(_sizes(folder))


def _sizes(folder: str | Path) -> Iterator[int]:
    try:
        entries = list(os.scandir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _sizes(entry.path)
            continue
        try:
            about = entry.stat(follow_symlinks=False)
            yield size_on_disk(about.st_size, about.st_blocks)
        except FileNotFoundError:
            continue


# ---- The runner ----------------------------------------------------------------------------------------------------
# the single process per store that claims queued runs, places them, and supervises their workers. Torch-free. It may be
# killed at any time: runs continue, and the next runner takes them over from the store.

log = logging.getLogger(__name__)

POLL_S = 0.05
BEAT_S = 1.0
SAMPLE_S = 5.0
"""Interval of machine samples."""
SPARE_RETRY_S = 5.0
SPARE_CORES = 1
"""Cores used by a spare while it loads."""
COMMAND_SPARE_S = 1.0
"""Interval of looks for a spare for commands, which starts in a second and loads no torch."""
SPARE_IDLE_S = 300.0
"""Time without a run after which the spare ends: torch takes most of the memory of an idle machine."""
TAKE_S = 2.0
"""Time to try to take the lock before checking its holder: `is_running` also holds it briefly."""


class AlreadyServed(RunnerError):
    """Another runner serves the home."""


def serve(home: Home) -> None:
    """Serve `home` until a stop request; raises RunnerError if another runner is running, StoreError, ConfigError for
    an invalid setting.
    """
    home.create()
    log_to_stdout()
    close_home(home)
    public_url()
    with taken(home), Store.open(home) as store:
        refuse_beside_foreign_runs(home)
        announce(home)
        _serve(home, store)


def _serve(home: Home, store: Store) -> None:
    with delivery_thread(home), cluster_thread(home):
        launcher = LocalLauncher(home)
        try:
            Runner(home, store, launcher, machine(), schedule=Schedule.from_environment(home)).until_stopped()
        finally:
            launcher.close()


def taken(home: Home) -> AbstractContextManager[object]:
    """Take and return the runner's lock; raises RunnerError if another runner is running."""
    lock = FileLock(home.runner_lock)
    while True:
        try:
            return lock.acquire(timeout=TAKE_S)
        except Timeout:
            if is_served(home):
                raise AlreadyServed(
                    f"A runner is already running for {home.path}{_holder(home)}. Launch runs, or stop it with the "
                    "stop command."
                ) from None


def _holder(home: Home) -> str:
    try:
        with Reader.open(home) as reader:
            row = reader.runner.current()
    except StoreError:
        return ""
    where = (
        f" of another PID namespace ({row.process.pid_namespace}), such as another container"
        if row and is_foreign(row.process)
        else ""
    )
    return f" (pid {row.process.pid}{where})" if row else ""


def inherit(home: Home, endings: Endings) -> None:
    """Take over the remains of ended runs from the last runner: processes get the usual time to exit, memory is freed.
    Raises StoreError.
    """
    with Reader.open(home) as reader:
        found = leftovers(home, reader, grace_s=0.0)
    for run_id in sorted({one.run_id for one in found if one.kind == "process" and one.run_id}):
        endings.inherit(run_id)
    if forsaken := [one for one in found if one.kind == "shared memory" or (one.kind == "process" and not one.run_id)]:
        clean(home, forsaken, by=Program("runner"), grace_s=0.0)
    with Store.open(home) as store:
        if count := clear_killed(store):
            log.info("cleared %d unfinished imports", count)


class Sampler:
    """Samples the host and its GPUs at most once in `SAMPLE_S`, starting after one interval, as CPU use is a mean over
    it.
    """

    def __init__(self) -> None:
        self._telemetry = Telemetry([])
        self._looked_at = time.monotonic()

    def look(self, store: Store) -> bool:
        """Record a sample if due; return whether it was."""
        if time.monotonic() - self._looked_at < SAMPLE_S:
            return False
        self._looked_at = time.monotonic()
        store.machine.add(self._telemetry.sample())
        return True


@dataclass
class Runner:
    """The main loop: heartbeat, supervise live runs, place queued runs, keep a spare warm."""

    home: Home
    store: Store
    launcher: Launcher
    machine: Machine
    leaving: bool = False
    beaten_at: float = 0.0
    spare_at: float = 0.0
    command_spare_at: float = 0.0
    active_at: float = field(default_factory=time.monotonic)
    stopping: bool = False
    schedule: Schedule | None = None
    gpus: Gpus = field(default_factory=NvmlGpus)
    sampler: Sampler = field(default_factory=Sampler)
    usage: Usage = field(default_factory=Usage)
    endings: Endings = field(init=False)
    referee: Referee = field(init=False)
    repeats: Repeats = field(init=False)
    silence: Silence = field(init=False)

    def __post_init__(self) -> None:
        self.placement = Placement(self.home, self.store, self.launcher, self.machine, self.gpus)
        self.endings = Endings(self.store, self.launcher)
        self.referee = Referee(self.home, self.store)
        self.repeats = Repeats(self.home, self.store)
        self.silence = Silence(self.home, self.store)

    def until_stopped(self) -> None:
        """Run until SIGTERM or SIGINT (runs continue), or until a stop request and the end of all runs.

        Raises RunnerError if its code is replaced by another version. It does not sign off then, so that its supervisor
        starts the next runner, which takes over the runs.
        """
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._leave)
        self.endings.note_last_runner()
        network, why = machine_level()
        self.store.runner.register(me(), cores=self.machine.cores, gpus=len(self.machine.gpus), network=network)
        if network == "host":
            log.warning("ranks listen on %s: %s", LEVEL_WORDS[network], why)
        log.info(
            "runner %d serves %s: %d cores, %d GPUs",
            os.getpid(),
            self.home.path,
            self.machine.cores,
            len(self.machine.gpus),
        )
        try:
            inherit(self.home, self.endings)
        except (StoreBusy, StoreFull) as trouble:
            log.warning("could not take over from the last runner: %s", trouble)
        while not self.leaving:
            try:
                if not self.step():
                    break
            except (StoreBusy, StoreFull) as trouble:  # temporary errors; keep running
                log.warning("%s", trouble)
                time.sleep(BEAT_S)
            time.sleep(POLL_S)
        self.store.runner.remove()
        log.info("runner stops%s", "; its runs continue" if self.leaving else "")

    def step(self) -> bool:
        """Do all due work once; return False after a stop request, once all runs and their processes are gone. Raises
        StoreGone if the home was deleted, moved or replaced: the workers notice it too, and end their runs.
        """
        self.store.db.check_there()
        self._beat()
        self.sampler.look(self.store)
        self.usage.look(self.store)
        holders = self.endings.holders()
        self.referee.look([*holders, *self.store.read.queue.alive_on_clusters()])
        self.repeats.look()
        self.silence.look()
        if self.stopping:
            return bool(holders or self.endings.watched)
        holders += self.placement.claim(holders)
        self._keep_spare(holders)
        return True

    def _leave(self, number: int, frame: FrameType | None) -> None:
        self.leaving = True

    def _beat(self) -> None:
        if time.monotonic() - self.beaten_at >= BEAT_S:
            self.stopping = self.store.runner.beat(warm=self.launcher.warm)
            self.beaten_at = time.monotonic()
            if is_replaced() and not self.stopping:  # start nothing after a stop request
                raise RunnerError(
                    f"The code of this runner (version {__version__}) was replaced by version {version_on_disk()}, "
                    "so it stops; its runs continue. Start a new runner, which takes them over."
                )
            if self.schedule:
                self.schedule.look()

    def _keep_spare(self, holders: list[Run]) -> None:
        """Prepare a spare if enough cores are free: on a run's cores it would distort the run's timings.

        Minutes after the last run there is none; the next run starts its worker itself. After the first run of a
        command there is one for the next of them.
        """
        if holders:
            self.active_at = time.monotonic()
        elif time.monotonic() - self.active_at > SPARE_IDLE_S:
            self.launcher.close()
            return
        if any(run.status == "starting" or run.exclusive for run in holders):
            return
        at, free = time.monotonic(), free_cores(holders, self.machine)
        if self.placement.runs_commands and free > 0 and at - self.command_spare_at >= COMMAND_SPARE_S:
            self.command_spare_at = at
            self.launcher.reserve(for_command=True)
        if at - self.spare_at < SPARE_RETRY_S or (holders and free < SPARE_CORES):
            return
        self.spare_at = at
        self.launcher.reserve()
