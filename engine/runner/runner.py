"""The runner: the one process per store that claims queued runs, places them, and watches over their workers.
Torch-free.

It may be killed at any moment: runs go on, and the next runner takes them over from what the store says.
"""

import logging
import os
import signal
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import FrameType

from filelock import FileLock, Timeout

from engine import __version__
from engine.access.rules import Program
from engine.errors import RunnerError, StoreBusy, StoreError, StoreFull
from engine.home import Home
from engine.notices.delivery import Delivering
from engine.notices.public_url import public_url
from engine.queue.slots import free_cores
from engine.runner.disk_meter import Usage
from engine.runner.duel_scheduler import Referee
from engine.runner.launcher import Launcher, LocalLauncher
from engine.runner.placement import Placement
from engine.runner.run_supervisor import Endings
from engine.runtime.worker.code_version import is_replaced, version_on_disk
from engine.runtime.worker.telemetry import Telemetry
from engine.store import Reader, Store
from engine.store.records import Run
from engine.system.gpus import Gpus, NvmlGpus
from engine.system.liveness_lock import announce
from engine.system.logs import log_to_stdout
from engine.system.machine import Machine, machine
from engine.system.network_isolation import LEVEL_WORDS, machine_level
from engine.system.processes import is_foreign, me
from engine.system.runner_process import is_served, refuse_beside_foreign_runs
from engine.upkeep.leftovers import clean, leftovers
from engine.upkeep.private_home import close_home
from engine.upkeep.schedule import Schedule

log = logging.getLogger(__name__)

POLL_S = 0.05
BEAT_S = 1.0
SAMPLE_S = 5.0
"""How often the machine is looked at, whether or not a run is on."""
SPARE_RETRY_S = 5.0
SPARE_CORES = 2
"""What a spare keeps busy while it loads: the worker and its fork server."""
TAKE_S = 2.0
"""So long a new runner tries to take the lock before it asks who holds it: a mere look (`is_running`) does so for a
moment.
"""


def serve(home: Home) -> None:
    """Serve `home` until asked to stop; raises RunnerError where another runner does already, StoreError, ConfigError
    for a setting that can't be.
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
    with Delivering(home, me()):
        launcher = LocalLauncher(home)
        try:
            Runner(home, store, launcher, machine(), schedule=Schedule.from_environment(home)).until_stopped()
        finally:
            launcher.close()


def taken(home: Home) -> AbstractContextManager[object]:
    """Return the runner's lock, held; raises RunnerError where another runner serves `home`."""
    lock = FileLock(home.runner_lock)
    while True:
        try:
            return lock.acquire(timeout=TAKE_S)
        except Timeout:
            if is_served(home):
                raise RunnerError(
                    f"A runner already serves {home.path}{_holder(home)}. One is enough: launch runs and it "
                    "will take them, or end it with the stop command."
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
    """Look after what the last runner left of runs that have ended: processes have as long to end as under one that
    watched them, memory is given back. Raises StoreError.
    """
    with Reader.open(home) as reader:
        found = leftovers(home, reader, grace_s=0.0)
    for run_id in sorted({one.run_id for one in found if one.kind == "process" and one.run_id}):
        endings.inherit(run_id)
    if forsaken := [one for one in found if one.kind == "shared memory" or (one.kind == "process" and not one.run_id)]:
        clean(home, forsaken, by=Program("runner"), grace_s=0.0)


class Sampler:
    """Samples the host and its GPUs at most once in `SAMPLE_S`, first that long after it was made: CPU use is a mean
    over the time between.
    """

    def __init__(self) -> None:
        self._telemetry = Telemetry([])
        self._looked_at = time.monotonic()

    def look(self, store: Store) -> bool:
        """Give the store a sample where one is due; return whether it was."""
        if time.monotonic() - self._looked_at < SAMPLE_S:
            return False
        self._looked_at = time.monotonic()
        store.machine.add(self._telemetry.sample())
        return True


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
        """Run until SIGTERM or SIGINT (runs go on), or until a stop was asked for and no run is left.

        Raises RunnerError where its code is replaced by another version's. It does not sign off then, so whoever looks
        after the runner starts the next one, which takes the runs over.
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
            log.warning("what the last runner left is not looked after: %s", trouble)
        while not self.leaving:
            try:
                if not self.step():
                    break
            except (StoreBusy, StoreFull) as trouble:  # both pass: a runner that ended now would help nobody
                log.warning("%s", trouble)
                time.sleep(BEAT_S)
            time.sleep(POLL_S)
        self.store.runner.remove()
        log.info("runner ends%s", "; its runs go on" if self.leaving else "")

    def step(self) -> bool:
        """Do once all that is due; return False when a stop was asked for, and no run is left nor anything of one that
        has ended.
        """
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
            self.stopping = self.store.runner.beat(warm=self.launcher.warm)
            self.beaten_at = time.monotonic()
            if is_replaced() and not self.stopping:  # one that is to stop begins nothing more
                raise RunnerError(
                    f"This runner is of version {__version__} and its code was replaced by version "
                    f"{version_on_disk()}, so it ends; its runs go on. Start the runner again: it takes them over."
                )
            if self.schedule:
                self.schedule.look()

    def _keep_spare(self, holders: list[Run]) -> None:
        """Prepare a spare while the cores it loads on are free: on a run's own cores it would falsify the
        run's times.
        """
        if time.monotonic() - self.spare_at < SPARE_RETRY_S or (
            holders and free_cores(holders, self.machine) < SPARE_CORES
        ):
            return
        if any(run.status == "starting" or run.exclusive for run in holders):
            return
        self.spare_at = time.monotonic()
        self.launcher.reserve()
