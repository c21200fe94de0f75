"""Assignment of slots to queued runs: the head if it fits, else a small run as backfill. Torch-free."""

import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import gettempdir
from typing import IO, Protocol

from engine.access.quotas import NONE, Limits, limits
from engine.errors import ConfigError
from engine.home import GIVEN, ROOT, Home
from engine.queue.backfill import IDLE_CHECK_S, FreeSlots, next_up, quota_limits
from engine.queue.estimates import History
from engine.queue.forecast import NEXT, holders_of, reasons, waiting_of
from engine.queue.slots import Slots, foreign_gpus, lacks, place
from engine.registry import is_own
from engine.store import Store
from engine.store.queue.queue import QuotaLimits
from engine.store.records import ProcessIdentity, Run
from engine.system.cleanup import end_tree
from engine.system.cpu_use import CoreUse, core_use
from engine.system.machine import Gpus, GpuState, Machine
from engine.system.processes import describe_exit, identity, is_foreign
from engine.system.runner_process import lives

# ---- Launching of workers: the interface, and its implementation for this machine. Torch-free ----------------------
# A worker starts before its run: as a spare it loads torch and waits for a run's id on its standard input. The claim
# can thus name its process at once, and after any crash the next runner knows the run's process.

SOCKET_NAME = len("/pymp-12345678/listener-12345678")
SOCKET_PATH = 107
"""Linux's limit on a socket's path, and the length of the name that multiprocessing appends to the temporary folder."""
REAP_S = 10.0
"""Time for a worker to exit after its first thread."""


class Launcher(Protocol):
    """Interface between the runner and the machine of the workers."""

    def reserve(self, *, for_command: bool = False) -> ProcessIdentity:
        """Return a waiting worker, starting one if needed; one for a run of a command loads no torch."""

    def submit(self, worker: ProcessIdentity, run_id: int) -> None:
        """Send the run to the reserved worker."""

    def poll(self, worker: ProcessIdentity) -> str | None:
        """Return how the worker ended, as text, or None while it lives."""

    def cancel(self, worker: ProcessIdentity, *, force: bool = False) -> None:
        """Tell the worker to stop its run, or with `force` kill it and all its processes."""

    def close(self) -> None:
        """End the spare; runs continue."""

    def failure(self) -> str:
        """Return the output of the last worker that failed to start."""

    @property
    def warm(self) -> bool:
        """Whether a spare worker is ready."""


@dataclass
class _Spare:
    process: subprocess.Popen[bytes]
    worker: ProcessIdentity
    ready: bool = False


class LocalLauncher:
    """Starts workers as processes of this machine, each in its own session, and keeps one spare."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._spare: _Spare | None = None
        self._for_command: _Spare | None = None
        self._children: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def warm(self) -> bool:
        """Whether a spare has loaded torch and waits. Called each second; also reaps ended workers."""
        for child in self._children.values():
            child.poll()
        spare = self._live_spare()
        if spare and not spare.ready:
            spare.ready = _says_ready(spare.process.stdout)
        return bool(spare and spare.ready)

    def reserve(self, *, for_command: bool = False) -> ProcessIdentity:
        """Return the spare of that kind, which may still be loading, or a new worker."""
        if for_command:
            return self._reserve_for_command()
        spare = self._live_spare()
        while spare is None:
            self._start_spare()
            spare = self._live_spare()
        return spare.worker

    def submit(self, worker: ProcessIdentity, run_id: int) -> None:
        """Write the run's id to the reserved worker."""
        spare = next((each for each in (self._for_command, self._spare) if each and each.worker == worker), None)
        assert spare, "submit the run to its reserved worker"
        if spare is self._spare:
            self._spare = None
        else:
            self._for_command = None
        self._children[worker.pid] = spare.process
        assert spare.process.stdin and spare.process.stdout
        try:
            spare.process.stdin.write(f"{run_id}\n".encode())
            spare.process.stdin.close()
        except BrokenPipeError:
            pass  # it has just died; poll() reports how
        spare.process.stdout.close()

    def poll(self, worker: ProcessIdentity) -> str | None:
        """Return how the worker ended, or None while it lives; reaps it if it is our child."""
        if lives(self._home, worker):
            return None
        child = None if is_foreign(worker) else self._children.pop(worker.pid, None)
        try:
            # Its first thread is gone; the exit code is available only after the last one.
            return describe_exit(child.wait(timeout=REAP_S)) if child else "is gone"
        except subprocess.TimeoutExpired:
            return "is gone"

    def cancel(self, worker: ProcessIdentity, *, force: bool = False) -> None:
        """Send SIGTERM to the worker only, or kill it and all its processes."""
        if force:
            end_tree(worker, self._home.path)
        elif not is_foreign(worker) and lives(self._home, worker):
            os.kill(worker.pid, signal.SIGTERM)

    def close(self) -> None:
        """End the spare; runs continue."""
        for spare in filter(None, (self._live_spare(), self._for_command)):
            spare.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                spare.process.wait(timeout=10)
            end_tree(spare.worker, self._home.path)
        self._spare = self._for_command = None

    def failure(self) -> str:
        """Return the end of the last spare's output."""
        try:
            return self._log.read_text(errors="replace")[-4000:]
        except OSError:
            return ""

    @property
    def _log(self) -> Path:
        return self._home.spare_log

    def _live_spare(self) -> _Spare | None:
        if self._spare and self._spare.process.poll() is not None:
            self._spare = None
        return self._spare

    def _start_spare(self) -> None:
        self._spare = self._started("engine.worker")

    def _reserve_for_command(self) -> ProcessIdentity:
        while self._for_command is None or self._for_command.process.poll() is not None:
            self._for_command = self._started("engine.runtime.command")
        return self._for_command.worker

    def _started(self, module: str) -> _Spare | None:
        """Start a worker; None if it ended at once."""
        self._log.write_bytes(b"")
        with self._log.open("ab") as log:  # the other spare may still write to it
            process = subprocess.Popen(
                [sys.executable, "-m", module, "--home", str(self._home.path)],
                cwd=ROOT,
                env=os.environ | room_for_sockets() | {"PARALLAB_HOME": str(self._home.path)},
                start_new_session=True,
                umask=GIVEN,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        assert process.stdout
        os.set_blocking(process.stdout.fileno(), False)
        worker = identity(process.pid)
        return _Spare(process, worker) if worker else None


def room_for_sockets() -> dict[str, str]:
    """Return environment variables for a temporary folder with short enough socket paths; empty if not needed."""
    return {"TMPDIR": "/tmp"} if len(os.fsencode(gettempdir())) + SOCKET_NAME > SOCKET_PATH else {}


def _says_ready(stream: IO[bytes] | None) -> bool:
    try:
        return bool(stream and stream.read())
    except (OSError, ValueError):
        return False


# ---- Assignment of slots to queued runs: the head if it fits, else a small run as backfill. Torch-free -------------

# ---- The check that the machine is idle before a run that is to be timed starts ------------------------------------
# Torch-free.

IDLE_BELOW = 0.1
"""Share of the cores' time (0 to 1) below which a machine is idle: the runner, the console and a watching browser take
less.
"""
LONGEST_S = 15.0
"""Time after which a run starts on a busy machine all the same; its record then says what disturbed it."""


@dataclass
class IdleCheck:
    """Measures what the cores do while a run waits for an idle machine, with no other run on it."""

    cores: Sequence[int]
    read: Callable[[Sequence[int]], CoreUse | None] = core_use
    clock: Callable[[], float] = time.monotonic
    busy: float | None = field(default=None, init=False)
    """Share of the cores' time used in the last window, where that was too much."""
    _run_id: int | None = field(default=None, init=False)
    _began_at: float = field(default=0.0, init=False)
    _window: tuple[float, CoreUse | None] = field(default=(0.0, None), init=False)

    def may_start(self, run_id: int) -> bool:
        """Return whether the machine was idle for a window, or the run has waited long enough. To be asked repeatedly
        while the run is the next one and no other is on.
        """
        now = self.clock()
        before_at, before = self._window
        if run_id != self._run_id or now - before_at > 3 * IDLE_CHECK_S:  # another run, or one that was on in between
            if run_id != self._run_id:
                self._run_id, self._began_at, self.busy = run_id, now, None
            self._window = now, self.read(self.cores)
            return self._window[1] is None
        if now - before_at < IDLE_CHECK_S:
            return False
        self._window = now, self.read(self.cores)
        after = self._window[1]
        if before is None or after is None:
            return True
        used = (after.used_s - before.used_s + after.stolen_s - before.stolen_s) / (now - before_at) / len(self.cores)
        self.busy = used if used > IDLE_BELOW else None
        return self.busy is None or now - self._began_at >= LONGEST_S


# ---- Placement -----------------------------------------------------------------------------------------------------

log = logging.getLogger(__name__)

PASS_S = 1.0
"""Interval of searches for backfill."""
FAR = 100
"""Number of queued runs to search."""
GPUS_S = 0.5
"""Maximum age of the GPUs' state."""
HISTORY_S = 10.0
"""Maximum age of the estimates from similar runs."""


@dataclass
class Placement:
    """Decides in each round which runs start, and on which slots."""

    home: Home
    store: Store
    launcher: Launcher
    machine: Machine
    gpus: Gpus
    idle: IdleCheck = field(init=False)
    runs_commands: bool = False
    """Whether it has started a run of a command."""
    _limits: Limits = NONE
    _complaint: str = ""
    _passed_at: float = 0.0
    _looked_at: float = 0.0
    _states: Mapping[int, GpuState] = field(default_factory=dict)
    _history: tuple[float, History] | None = None
    _waits: dict[int, str] = field(default_factory=dict)
    """Why each queued run waited when it was last seen to; without expected ends."""
    _waits_at: float = 0.0

    def __post_init__(self) -> None:
        self.idle = IdleCheck(self.machine.core_ids or range(self.machine.cores))

    def claim(self, holders: Sequence[Run]) -> list[Run]:
        """Start queued runs while possible; return the started ones."""
        started: list[Run] = []
        while not self.store.read.runner.is_stopping() and (chosen := self._choose([*holders, *started])):
            run, slots = chosen
            is_confined = run.command is not None or is_own(run)
            self.runs_commands = self.runs_commands or is_confined
            worker = self.launcher.reserve(for_command=is_confined)
            reason = self._waits.get(run.id, "")
            if self.store.claims.claim(run.id, worker, slots.gpus, slots.cores, reason):
                self.launcher.submit(worker, run.id)
                started.append(replace(run, gpus=slots.gpus, cores=slots.cores, status="starting"))
        self._note_waits([*holders, *started])
        return started

    def _note_waits(self, holders: Sequence[Run]) -> None:
        """Keep why the queued runs wait, once in `PASS_S`: when one starts, its reason is gone."""
        if time.monotonic() - self._waits_at < PASS_S:
            return
        self._waits_at = time.monotonic()
        queued = self.store.read.queue.waiting(limit=FAR, target="")
        if not queued:
            self._waits = {}
            return
        room, past = self._room(holders), self._past()
        held = [replace(holder, end=None) for holder in holders_of(holders, past, room)]
        found = reasons(waiting_of(queued, past, room), held, room, str)
        self._waits = {run_id: self._waits.get(run_id, "") if why == NEXT else why for run_id, why in found.items()}

    def _room(self, holders: Sequence[Run]) -> FreeSlots:
        foreign = foreign_gpus(holders, self.machine, self._gpu_states())
        return FreeSlots(self.machine.cores, len(self.machine.gpus) - len(foreign), self._limits, tuple(foreign))

    def _choose(self, holders: Sequence[Run]) -> tuple[Run, Slots] | None:
        """Return the next run to start with its slots; runs that can never fit fail."""
        bounded = self._bounded(holders)
        while (head := self.store.read.queue.next(bounded)) and (lack := lacks(head, self.machine)):
            self.store.claims.refuse(head.id, lack)
        if head is None:
            return None
        slots = place(head, holders, self.machine, self._gpu_states())
        if slots and head.exclusive and not self._is_idle(head):
            return None
        return (head, slots) if slots else self._passing(head, holders, bounded)

    def _is_idle(self, run: Run) -> bool:
        """Return whether a run that is to be timed may start; the first time that it may not, note why as an event."""
        was_busy = self.idle.busy is not None
        may = self.idle.may_start(run.id)
        if self.idle.busy is not None and not was_busy:
            used = f"other programs use {self.idle.busy:.0%} of the cores".replace("%", " %")
            self.store.claims.note_wait(run.id, f"{used}; starts when they stop, or in {LONGEST_S:g} s at the latest")
        return may

    def _passing(self, head: Run, holders: Sequence[Run], bounded: QuotaLimits) -> tuple[Run, Slots] | None:
        """Return a run for backfill, while the head does not fit."""
        if head.exclusive or time.monotonic() - self._passed_at < PASS_S:  # backfill would delay an exclusive run
            return None
        self._passed_at = time.monotonic()
        queued = self.store.read.queue.waiting(limit=FAR, ready=bounded)
        if len(queued) < 2 or queued[0].id != head.id:
            return None
        room = self._room(holders)
        chosen = next_up(waiting_of(queued, self._past(), room), holders_of(holders, self._past(), room), room)
        if chosen is None or chosen.id == head.id:
            return None
        run = self.store.read.runs.one(chosen.id)
        slots = place(run, holders, self.machine, self._gpu_states())
        if slots is None:
            return None
        log.info("run %d is backfilled before run %d, which does not fit yet and is not delayed", run.id, head.id)
        self._passed_at = 0.0  # search again at once
        return run, slots

    def _past(self) -> History:
        now = time.monotonic()
        if self._history is None or now - self._history[0] > HISTORY_S:
            self._history = now, History(self.store.read, socket.gethostname())
        return self._history[1]

    def _gpu_states(self) -> Mapping[int, GpuState]:
        if self.machine.gpus and time.monotonic() - self._looked_at > GPUS_S:
            self._states, self._looked_at = self.gpus.states(), time.monotonic()
        return self._states

    def _bounded(self, holders: Sequence[Run]) -> QuotaLimits:
        """Return the remaining quota of each person in the queue."""
        found = self._limits_now()
        return quota_limits(self.store.read.queue.owners() if found.any else (), holders, found)

    def _limits_now(self) -> Limits:
        """Return the home's limits; if unreadable, the previous ones stay in effect."""
        try:
            self._limits = limits(self.home)
        except ConfigError as error:
            if str(error) != self._complaint:
                log.warning("%s", error)
            self._complaint = str(error)
        return self._limits
