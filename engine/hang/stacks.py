"""The Python stacks of ranks, written by themselves on a signal, also where they are stuck in C code.

A real-time signal is used: Slurm, submitit and torch use the others. A stopped process writes nothing.
"""

import faulthandler
import os
import re
import signal
from contextlib import suppress
from pathlib import Path

SIGNAL = signal.SIGRTMIN + 7 if hasattr(signal, "SIGRTMIN") else signal.SIGUSR1
FOLDER = "hang"
"""Folder of the evidence within a run's folder."""
_FRAME = re.compile(r'^  File "(?P<path>.*)", line (?P<line>\d+) in (?P<function>.*)$')
_LIBRARY = re.compile(r"/(site-packages|lib/python3[^/]*)/")


def stack_file(folder: Path, role: str) -> Path:
    """Return the file for a rank's stacks."""
    return folder / FOLDER / f"{role}.txt"


def write_stacks_on_signal(folder: Path, role: str) -> None:
    """Make this process write the stacks of all its threads to its file each time that it gets the signal."""
    path = stack_file(folder, role)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    early = path.with_suffix(".early")
    descriptor = os.open(early, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    faulthandler.register(SIGNAL, descriptor, all_threads=True)
    early.replace(path)  # a signal before this would end the process


def remove_empty(folder: Path) -> None:
    """Remove the files of ranks that were never asked; call when all ranks have ended."""
    with suppress(OSError):
        for path in (folder / FOLDER).iterdir():
            if path.stat().st_size == 0:
                path.unlink()
        (folder / FOLDER).rmdir()  # fails where there is evidence


class StackRequest:
    """Asks one rank for its stacks; what it wrote is there soon after."""

    def __init__(self, folder: Path, role: str, pid: int) -> None:
        self._path = stack_file(folder, role)
        self._from = self._path.stat().st_size if self._path.exists() else 0
        if self._path.exists():
            os.kill(pid, SIGNAL)

    def text(self) -> str:
        """Return what the rank has written since the request."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._from)
                return file.read(1 << 20).decode(errors="replace")
        except OSError:
            return ""


def place_of(stacks: str) -> str:
    """Return where the main thread is: "take(), batches.py:52", the innermost frame outside of libraries.

    The main thread is the last one that faulthandler writes.
    """
    main = stacks.rpartition("hread 0x")[2] or stacks
    frames = [found for line in main.splitlines() if (found := _FRAME.match(line))]
    own = [frame for frame in frames if not _LIBRARY.search(frame["path"])] or frames
    return f"{own[0]['function']}(), {Path(own[0]['path']).name}:{own[0]['line']}" if own else ""
