"""How a worker comes to be: the interface to the machine, and the one for this machine. Torch-free.

A worker starts before its run: it loads torch as a spare and waits for a run's id on its standard input. So the claim
can name its process at once, and whatever dies when, the next runner can tell who held the run.
"""

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir
from typing import IO, Protocol

from engine.home import ROOT, Home
from engine.store.records import ProcessIdentity
from engine.system.cleanup import end_tree
from engine.system.liveness_lock import lives
from engine.system.processes import describe_exit, identity, is_alive, is_foreign
from engine.umask import GIVEN

SOCKET_NAME = len("/pymp-12345678/listener-12345678")
SOCKET_PATH = 107
"""Bytes that Linux allows for a socket's path; multiprocessing adds a name of that length to the temporary folder."""
REAP_S = 10.0
"""So long a worker whose first thread is gone has to be gone as a whole."""


class Launcher(Protocol):
    """What the runner asks of the place where workers run."""

    def reserve(self) -> ProcessIdentity:
        """Return a worker that waits for a run, starting one where none does."""

    def submit(self, worker: ProcessIdentity, run_id: int) -> None:
        """Hand the run to the reserved worker."""

    def poll(self, worker: ProcessIdentity) -> str | None:
        """Return how the worker ended, in words, or None while it lives."""

    def cancel(self, worker: ProcessIdentity, *, force: bool = False) -> None:
        """Ask the worker to end its run, or with `force` kill it and all that it started."""

    def failure(self) -> str:
        """Return what the last worker that could not start had to say."""

    @property
    def warm(self) -> bool:
        """Whether a spare worker stands ready."""


@dataclass
class _Spare:
    process: subprocess.Popen[bytes]
    worker: ProcessIdentity
    ready: bool = False


class LocalLauncher:
    """Starts workers as processes of this machine, each in a session of its own, and keeps one spare."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._spare: _Spare | None = None
        self._children: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def warm(self) -> bool:
        """Whether a spare has torch loaded and waits. Asked each second, it also reaps workers that ended."""
        for child in self._children.values():
            child.poll()
        spare = self._live_spare()
        if spare and not spare.ready:
            spare.ready = _says_ready(spare.process.stdout)
        return bool(spare and spare.ready)

    def reserve(self) -> ProcessIdentity:
        """Return the spare, which may still be loading, or a new one."""
        spare = self._live_spare()
        while spare is None:
            self._start_spare()
            spare = self._live_spare()
        return spare.worker

    def submit(self, worker: ProcessIdentity, run_id: int) -> None:
        """Write the run's id to the reserved worker."""
        spare = self._spare
        assert spare and spare.worker == worker, "a run goes to the worker that was reserved for it"
        self._spare = None
        self._children[worker.pid] = spare.process
        assert spare.process.stdin and spare.process.stdout
        try:
            spare.process.stdin.write(f"{run_id}\n".encode())
            spare.process.stdin.close()
        except BrokenPipeError:
            pass  # it died this moment; poll() says how
        spare.process.stdout.close()

    def poll(self, worker: ProcessIdentity) -> str | None:
        """Return how the worker ended, or None while it lives; reaps it where it is our child."""
        if lives(self._home, worker):
            return None
        child = None if is_foreign(worker) else self._children.pop(worker.pid, None)
        try:
            # Its first thread is gone; the kernel tells the code only when the last one is.
            return describe_exit(child.wait(timeout=REAP_S)) if child else "is gone"
        except subprocess.TimeoutExpired:
            return "is gone"

    def cancel(self, worker: ProcessIdentity, *, force: bool = False) -> None:
        """Send SIGTERM to the worker alone, or kill it and all that it started."""
        if force:
            end_tree(worker)
        elif is_alive(worker):
            os.kill(worker.pid, signal.SIGTERM)

    def close(self) -> None:
        """End the spare; runs go on."""
        if spare := self._live_spare():
            spare.process.terminate()
            spare.process.wait(timeout=10)
            end_tree(spare.worker)
        self._spare = None

    def failure(self) -> str:
        """Return the end of what the last spare wrote."""
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
        with self._log.open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "engine.worker", "--home", str(self._home.path)],
                cwd=ROOT,
                env=os.environ | room_for_sockets(),
                start_new_session=True,
                umask=GIVEN,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        assert process.stdout
        os.set_blocking(process.stdout.fileno(), False)
        worker = identity(process.pid)
        self._spare = _Spare(process, worker) if worker else None


def room_for_sockets() -> dict[str, str]:
    """Return the variables that give a process a temporary folder whose sockets can have a path; none where it has one
    already.
    """
    return {"TMPDIR": "/tmp"} if len(os.fsencode(gettempdir())) + SOCKET_NAME > SOCKET_PATH else {}


def _says_ready(stream: IO[bytes] | None) -> bool:
    try:
        return bool(stream and stream.read())
    except (OSError, ValueError):
        return False
