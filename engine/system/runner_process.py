"""Whether a runner serves a home, who it is, and the start of one where none does: what everybody asks who is not the
runner. Torch-free.
"""

import os
import subprocess
import sys
import time

from filelock import FileLock, Timeout

from engine.errors import RunnerError
from engine.home import ROOT, Home
from engine.store import Reader
from engine.store.records import ProcessIdentity
from engine.system.liveness_lock import lives
from engine.system.processes import is_foreign, pid_namespace
from engine.umask import GIVEN

SETTLE_S = 30.0
"""So long a lock that no runner of the store explains may be that of one who starts, ends or has just died, on a
machine that has other work.
"""
LOOK_S = 0.05

SEPARATE = "PARALLAB_RUNNER"
"""Set to `separate` where a service of the machine starts the runner and starts it again: then nothing of ours does."""

_started: list[subprocess.Popen[bytes]] = []
"""Runners that this process started: kept, so that one that ends is reaped and leaves no zombie."""


def is_running(home: Home) -> bool:
    """Say whether a runner holds this home's lock at this moment."""
    if not home.runner_lock.exists():
        return False
    lock = FileLock(home.runner_lock)
    try:
        with lock.acquire(timeout=0):
            return False
    except Timeout:
        return True


def is_served(home: Home) -> bool:
    """Say whether a runner serves this home, once that is settled.

    A lock says nothing yet while its holder is not the live runner that the store names. It may start, and is named in
    a moment; it may have signed off, and still end what it had ready; or it was killed, and its threads, or a child
    between fork and exec, keep the lock for another moment.
    """
    deadline = time.monotonic() + SETTLE_S
    while is_running(home):
        if runner_process(home) or time.monotonic() > deadline:
            return True
        time.sleep(LOOK_S)
    return False


def ensure_running(home: Home) -> bool:
    """Start a runner in the background where none serves `home`; return whether one was started. Raises RunnerError
    where it would refuse to serve.

    It gets a session of its own, so that Ctrl-C, a closed terminal or an ended console leave it alone.
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
            [sys.executable, "-m", "engine", "serve"],
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
    """Raise RunnerError while a run of another PID namespace is carried out: a runner here could neither watch nor end
    its processes.
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
            f"A run is carried out in another PID namespace, such as another container: {there}. A runner of "
            f"this namespace ({pid_namespace()}) can't watch"
            " or end it, so none serves here and queued runs wait. Start the runner where that run was "
            "started, or wait until it has ended."
        )


def is_separate() -> bool:
    """Say whether a service of the machine sees to the runner."""
    return os.environ.get(SEPARATE) == "separate"


def has_died(home: Home) -> bool:
    """Say whether the store names a runner that is no more: it was killed, for one that ends signs off."""
    with Reader.open(home) as reader:
        row = reader.runner.current()
    return row is not None and not lives(home, row.process)


def runner_process(home: Home) -> ProcessIdentity | None:
    """Return the live runner of `home`, or None."""
    with Reader.open(home) as reader:
        row = reader.runner.current()
    return row.process if row and lives(home, row.process) else None
