"""Check for a home's runner, identify it, and start one; for all processes except the runner. Torch-free."""

import fcntl
import hashlib
import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from filelock import FileLock, Timeout

from engine import seeding
from engine.errors import EngineError, RunnerError
from engine.home import GIVEN, ROOT, Home
from engine.registry import definition
from engine.store import Reader, Store
from engine.store.records import ALIVE, ProcessIdentity, Run
from engine.system.checkpoint_state import last_checkpoint, why_not_own
from engine.system.processes import is_alive, is_foreign, is_of_other_home, me, pid_namespace
from engine.system.run_files import note_for_runner

log = logging.getLogger(__name__)

SETTLE_S = 30.0
"""Time in which a lock without a registered runner may belong to one that is starting, stopping or has just died, on a
busy machine.
"""
LOOK_S = 0.05

SEPARATE = "PARALLAB_RUNNER"
"""Environment variable; `separate`: a service of the machine starts and restarts the runner, so we never do."""

_started: list[subprocess.Popen[bytes]] = []
"""Runners started by this process, kept for reaping."""


def is_running(home: Home) -> bool:
    """Return whether a runner holds this home's lock."""
    if not home.runner_lock.exists():
        return False
    lock = FileLock(home.runner_lock)
    try:
        with lock.acquire(timeout=0):
            return False
    except Timeout:
        return True


def is_served(home: Home) -> bool:
    """Return whether a runner serves this home, after waiting for a clear state.

    A lock is inconclusive while its holder is not the store's live runner: that one may be starting and register soon;
    it may have signed off and still be cleaning up; or it was killed, and its threads, or a child between fork and
    exec, hold the lock a little longer.
    """
    deadline = time.monotonic() + SETTLE_S
    while is_running(home):
        if runner_process(home) or time.monotonic() > deadline:
            return True
        time.sleep(LOOK_S)
    return False


def ensure_running(home: Home) -> bool:
    """Start a runner in the background if none serves `home`; return whether one was started. Raises RunnerError if a
    runner can't serve.

    It gets its own session, so that Ctrl-C, a closed terminal or the console's end don't affect it.
    """
    home.create()
    if is_separate():
        return False
    _started[:] = [process for process in _started if process.poll() is None]
    if is_served(home):
        return False
    refuse_beside_foreign_runs(home)
    with home.runner_log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "engine", "serve", "--unless-running"],
            cwd=ROOT,
            env=os.environ | {"PARALLAB_HOME": str(home.path)},
            start_new_session=True,
            umask=GIVEN,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    _started.append(process)
    return True


def refuse_beside_foreign_runs(home: Home) -> None:
    """Raise RunnerError while a run in another PID namespace is active: a runner here could neither watch nor end its
    processes.
    """
    with Reader.open(home) as reader:
        workers = {
            run.id: run.worker
            for run in reader.queue.alive()
            if run.worker and is_foreign(run.worker) and lives(home, run.worker)
        }
    if workers:
        there = ", ".join(f"{run_id} (namespace {worker.pid_namespace})" for run_id, worker in workers.items())
        raise RunnerError(
            f"A run is active in another PID namespace, such as another container: {there}. A runner in this "
            f"namespace ({pid_namespace()}) can't watch or end it, so none can start here and queued runs wait. "
            "Start the runner in the run's namespace, or wait until the run has ended."
        )


def is_separate() -> bool:
    """Return whether a service of the machine manages the runner."""
    return os.environ.get(SEPARATE) == "separate"


def has_died(home: Home) -> bool:
    """Return whether the store's runner is gone without having signed off, so it was killed."""
    with Reader.open(home) as reader:
        row = reader.runner.current()
    return row is not None and not lives(home, row.process)


def runner_process(home: Home) -> ProcessIdentity | None:
    """Return the live runner of `home`, or None."""
    with Reader.open(home) as reader:
        row = reader.runner.current()
    return row.process if row and lives(home, row.process) else None


def lost_runs(home: Home, reader: Reader) -> list[Run]:
    """Return the active runs without a worker; empty if a runner is running, which handles them. The worker of a run
    with a job is on the cluster, and the next runner asks there.
    """
    with_job = reader.cluster_jobs.run_ids()
    alive = (row for row in reader.runs.find(statuses=ALIVE) if not row.reported)
    runs = [reader.runs.one(row.id) for row in alive if row.id not in with_job]
    gone = [run for run in runs if run.worker is None or not lives(home, run.worker)]
    return gone if gone and not is_running(home) else []


# ---- The end of a run whose worker is gone: lost, and retried if its options allow it ------------------------------
# Torch-free.


def lose(store: Store, run: Run, cause: str, home: Home | None = None) -> None:
    """End a run as lost, and queue an automatic retry if allowed; `home` has its folder (default: the store's home)."""
    cause = _by_restore(store, run) or cause
    resumes = can_resume(store, run, home or store.db.home)
    cure = ""
    if run.terms.max_retries and run.attempt >= run.terms.max_retries:
        cure = f" All {run.terms.max_retries} retries are used up."
    elif not run.terms.max_retries:
        cure = f" {cure_of_loss(resumes)}"
    if next_id := store.claims.lose(run.id, f"{cause}{cure}", resumes=resumes):
        log.info("run %d was lost and is retried as run %d", run.id, next_id)
    note_for_runner(home or store.db.home, f"run {run.id} is lost: {cause}")


def _by_restore(store: Store, run: Run) -> str:
    """Return the cause of a run that the restored backup has as active."""
    restores = (one for one in store.read.audit.entries(command="restore") if not one.refused)
    last = next((one for one in restores if run.claimed_at and one.at >= run.claimed_at), None)
    if last is None:
        return ""
    return (
        f"The store was restored by {last.who} at {last.at} ({last.detail.partition(';')[0]}), a backup made while "
        "this run was active. What the run did afterwards is not in it."
    )


def cure_of_loss(resumes: bool) -> str:
    """Return what to do about a lost run, which `resumes` or not."""
    return "Resume it from its last checkpoint, or retry it." if resumes else "Retry it."


def can_resume(store: Store, run: Run, home: Home) -> bool:
    """Return whether a run has a checkpoint in its folder from which another one can continue."""
    try:
        if not definition(run).resumable or seeding.why_not_resumable(run.seeding):
            return False
        checkpoint = last_checkpoint(home.run_folder(run.id))
        return checkpoint is not None and not (
            why_not_own(run, checkpoint) or store.read.runs.why_behind(run.id, checkpoint.steps)
        )
    except EngineError:
        return False


# ---- Liveness of processes in other PID namespaces, by a lock that each holds until its end ------------------------
# Torch-free. Its pid is meaningless here, and /proc does not show it. The kernel releases the lock at its end, in
# any namespace.

_held: dict[Home, int] = {}
"""Descriptors of this process's locks: closing any descriptor of that file would release them."""


def announce(home: Home) -> None:
    """Take this process's lock until its end. Call before a run begins or a runner registers."""
    if home not in _held:
        _held[home] = os.open(home.presence_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.lockf(_held[home], fcntl.LOCK_EX, 1, _place(me()))


def lives(home: Home, process: ProcessIdentity) -> bool:
    """Return whether that process, a worker or runner of `home`, lives, in any PID namespace; one of another home, of
    which this is a copy, does not.
    """
    if is_foreign(process):
        return _holds_its_lock(home, process)
    return is_alive(process) and not is_of_other_home(process.pid, home.path)


def _holds_its_lock(home: Home, process: ProcessIdentity) -> bool:
    try:
        descriptor = _held[home] if home in _held else os.open(home.presence_lock, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:  # the home is not writable, so the lock can't be tested: assume alive
        return True
    place = _place(process)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
        fcntl.lockf(descriptor, fcntl.LOCK_UN, 1, place)
    except (BlockingIOError, PermissionError):
        return True
    finally:
        if home not in _held:
            os.close(descriptor)
    return False


def _place(process: ProcessIdentity) -> int:
    """Return the byte that the process locks: far beyond the file's end, where nothing is ever written."""
    words = f"{process.boot_id} {process.pid_namespace} {process.pid} {process.started_ticks}"
    return int.from_bytes(hashlib.sha256(words.encode()).digest()[:7])


# ---- Whether a console serves a home -------------------------------------------------------------------------------
# each holds a shared lock on a file in it, which ends with the process.


@contextmanager
def console_presence(home: Home) -> Iterator[None]:
    """Mark the home as served for the block."""
    with home.create().console_lock.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        yield


def has_console(home: Home) -> bool:
    """Return whether a console serves the home."""
    if not home.console_lock.exists():
        return False
    with home.console_lock.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            return isinstance(error, BlockingIOError)  # else the file system has no locks
    return False
