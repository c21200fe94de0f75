"""The Python stacks of ranks.

The worker asks a rank through the memory of its trace, and a thread of the rank writes the stacks: it holds the
interpreter lock, so no other thread changes its stack meanwhile. Where that thread does not run, because C code keeps
the lock, a real-time signal does the same: Slurm, submitit and torch use the others. It comes second because a signal
handler that reads the stack of a thread which runs may end the process (SIGSEGV). A stopped process writes nothing.
"""

import faulthandler
import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

SIGNAL = signal.SIGRTMIN + 7 if hasattr(signal, "SIGRTMIN") else signal.SIGUSR1
FOLDER = "hang"
"""Folder of the evidence within a run's folder."""
SIGNAL_AFTER_S = 1.0
"""Seconds that a rank has to answer before it gets the signal."""
SHOWN_BYTES = 20_000
MOST_BYTES = 4_000_000
"""Size of a rank's file from which on its stacks are not asked for again."""
_FRAME = re.compile(r'^  File "(?P<path>.*)", line (?P<line>\d+) in (?P<function>.*)$')
_LIBRARY = re.compile(r"/(site-packages|lib/python3[^/]*)/")


def stack_file(folder: Path, role: str) -> Path:
    """Return the file for a rank's stacks."""
    return folder / FOLDER / f"{role}.txt"


def write_stacks_on_signal(folder: Path, role: str) -> Callable[[], None]:
    """Make this process write the stacks of all its threads to its file each time that it gets the signal; return the
    function that writes them at once.
    """
    path = stack_file(folder, role)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    early = path.with_suffix(".early")
    descriptor = os.open(early, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    faulthandler.register(SIGNAL, descriptor, all_threads=True)
    early.replace(path)  # a signal before this would end the process
    return lambda: faulthandler.dump_traceback(descriptor, all_threads=True)


def last_stacks(folder: Path, role: str) -> str:
    """Return the end of a rank's file; empty if it has none."""
    with suppress(OSError), stack_file(folder, role).open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - SHOWN_BYTES))
        return file.read().decode(errors="replace")
    return ""


def remove_empty(folder: Path) -> None:
    """Remove the files of ranks that were never asked; call when all ranks have ended."""
    with suppress(OSError):
        for path in (folder / FOLDER).iterdir():
            if path.stat().st_size == 0:
                path.unlink()
        (folder / FOLDER).rmdir()  # fails where there is evidence


class StackRequest:
    """Asks one rank for its stacks; what it wrote is there soon after."""

    def __init__(self, folder: Path, role: str, ask: Callable[[], None]) -> None:
        self._path = stack_file(folder, role)
        self._from = self._path.stat().st_size if self._path.exists() else 0
        self._is_due = self._path.exists() and self._from < MOST_BYTES
        self._at = time.monotonic()
        if self._is_due:
            ask()

    def insist(self, pid: int) -> None:
        """Send the signal, once, if the rank has not answered for `SIGNAL_AFTER_S`. A stopped process would get it when
        it continues, so it gets none.
        """
        if self._is_due and time.monotonic() - self._at >= SIGNAL_AFTER_S:
            self._is_due = False
            if not self.text():
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


# ------------------------------------------------------------------------------------------------------------------
# torch's own record of a rank's collectives, its "flight recorder" for gloo and NCCL, kept beside the rank's
# stacks. Format: JSON with the fields `entries` (with `collective_seq_id`, `profiling_name`, `input_sizes`,
# `retired`) and `pg_status`, as torch 2.15 writes them. Only text is written and read, never a pickle.

VARIABLE, ENTRIES = "TORCH_FR_BUFFER_SIZE", "200"
"""torch keeps that many collectives of a process: 1.3 µs each, and none by default."""
DUMPS = ("_dump_fr_trace_json", "_dump_nccl_trace_json")
SHOWN = 10


def collectives_file(folder: Path, role: str) -> Path:
    """Return the file for a rank's collectives."""
    return folder / FOLDER / f"{role}.collectives.json"


def record_collectives() -> None:
    """Have torch record this process's collectives; call before the first of them."""
    os.environ.setdefault(VARIABLE, ENTRIES)


def write_collectives(folder: Path, role: str) -> None:
    """Write what torch has recorded in this process, if it has recorded anything and can tell it."""
    library = sys.modules.get("torch._C._distributed_c10d")
    recorded = []
    for dump in filter(None, (getattr(library, name, None) for name in DUMPS)):
        with suppress(RuntimeError, TypeError, ValueError):  # of another version of torch
            recorded.append(json.loads(dump(includeCollectives=True)))
    if any(each.get("entries") for each in recorded):
        path = collectives_file(folder, role)
        new = path.with_suffix(".new")
        with suppress(OSError):  # a full disk
            new.write_text(json.dumps(recorded))
            new.replace(path)


def last_collectives(folder: Path, role: str) -> str:
    """Return the newest collectives in words, a line each; empty if none are kept."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        return "\n".join(_lines(json.loads(collectives_file(folder, role).read_text())))
    return ""


def _lines(recorded: list[dict[str, Any]]) -> Iterator[str]:
    for group in recorded:
        for entry in group.get("entries", [])[-SHOWN:]:
            done = "completed" if entry["retired"] else "not completed"
            yield f"{entry['profiling_name']} #{entry['collective_seq_id']} {entry['input_sizes']}: {done}"
