"""Launching of workers: the interface, and its implementation for this machine. Torch-free.

A worker starts before its run: as a spare it loads torch and waits for a run's id on its standard input. The claim can
thus name its process at once, and after any crash the next runner knows the run's process.
"""

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir
from typing import IO, Protocol

from engine.home import GIVEN, ROOT, Home
from engine.store.records import ProcessIdentity
from engine.system.cleanup import end_tree
from engine.system.processes import describe_exit, identity, is_alive, is_foreign
from engine.system.runner_process import lives

SOCKET_NAME = len("/pymp-12345678/listener-12345678")
SOCKET_PATH = 107
"""Linux's limit on a socket's path, and the length of the name that multiprocessing appends to the temporary folder."""
REAP_S = 10.0
"""Time for a worker to exit after its first thread."""


class Launcher(Protocol):
    """Interface between the runner and the machine of the workers."""

    def reserve(self) -> ProcessIdentity:
        """Return a waiting worker, starting one if needed."""

    def submit(self, worker: ProcessIdentity, run_id: int) -> None:
        """Send the run to the reserved worker."""

    def poll(self, worker: ProcessIdentity) -> str | None:
        """Return how the worker ended, as text, or None while it lives."""

    def cancel(self, worker: ProcessIdentity, *, force: bool = False) -> None:
        """Tell the worker to stop its run, or with `force` kill it and all its processes."""

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

    def reserve(self) -> ProcessIdentity:
        """Return the spare, which may still be loading, or a new worker."""
        spare = self._live_spare()
        while spare is None:
            self._start_spare()
            spare = self._live_spare()
        return spare.worker

    def submit(self, worker: ProcessIdentity, run_id: int) -> None:
        """Write the run's id to the reserved worker."""
        spare = self._spare
        assert spare and spare.worker == worker, "submit the run to its reserved worker"
        self._spare = None
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
            end_tree(worker)
        elif is_alive(worker):
            os.kill(worker.pid, signal.SIGTERM)

    def close(self) -> None:
        """End the spare; runs continue."""
        if spare := self._live_spare():
            spare.process.terminate()
            spare.process.wait(timeout=10)
            end_tree(spare.worker)
        self._spare = None

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
    """Return environment variables for a temporary folder with short enough socket paths; empty if not needed."""
    return {"TMPDIR": "/tmp"} if len(os.fsencode(gettempdir())) + SOCKET_NAME > SOCKET_PATH else {}


def _says_ready(stream: IO[bytes] | None) -> bool:
    try:
        return bool(stream and stream.read())
    except (OSError, ValueError):
        return False
