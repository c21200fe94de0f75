"""Record a training script's measurements for Parallab: one file of the standard library, Python 3.9 or newer.

    from parallab_log import log, phase, progress

    for i in range(1000):
        with phase("data"):
            batch = next(batches)
        log({"loss": loss}, step=i)
        progress(i + 1, 1000)

A run finds it without a copy; elsewhere copy it next to the script, where it does nothing. It never raises and never
waits for the disk: four times a second a thread appends to a file in `PARALLAB_RUN_FOLDER`, and counts what it drops.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

__all__ = ["log", "phase", "progress"]
FOLDER, MOST, INTERVAL_S = os.environ.get("PARALLAB_RUN_FOLDER", ""), 200_000, 0.25
RANKS = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")


class _Writer:
    """The records of one process, which a thread appends to a file of its own."""

    def __init__(self) -> None:
        self.rank = next((int(os.environ[name]) for name in RANKS if os.environ.get(name, "").isdigit()), None)
        self.records: deque[tuple[float, int, dict[str, float]]] = deque()
        self.phases: dict[str, float] = {}
        self.progress: list[int] = []
        self.ignored: list[str] = []
        self.written: list[object] = [{}, [], 0]
        self.steps = self.dropped = 0
        self.file = -1
        self.torn = self.started = False
        self.lock, self.local = threading.Lock(), threading.local()

    def add(self, *records: tuple[float, int, dict[str, float]]) -> None:
        """Add records; the first call starts the thread."""
        if len(self.records) < MOST:
            self.records += records
        else:
            self.dropped += sum(len(values) for _, _, values in records)
        if self.started:
            return
        with self.lock:
            if not self.started:
                self.started = True
                threading.Thread(target=self.run, name="parallab_log", daemon=True).start()
                if "multiprocessing.util" in sys.modules:  # its processes end without `atexit`
                    sys.modules["multiprocessing.util"].Finalize(None, self.flush, exitpriority=0)

    def run(self) -> None:
        while True:
            time.sleep(INTERVAL_S)
            self.flush()

    def flush(self) -> None:
        """Append everything recorded since the last call."""
        with self.lock:
            records = [self.records.popleft() for _ in range(len(self.records))]
            state: list[object] = [dict(self.phases), self.progress, self.dropped]
            lines: list[object] = [{"t": at, "s": step, "m": values} for at, step, values in records]
            if state != self.written:
                lines.append({"t": time.time(), "phases": state[0], "progress": state[1], "dropped": state[2]})
            try:
                if lines:
                    self.write("".join(json.dumps(line) + "\n" for line in lines).encode())
                self.written = state
            except Exception:
                self.dropped += sum(len(values) for _, _, values in records)
                self.torn = True

    def write(self, data: bytes) -> None:
        if self.file < 0:
            folder = Path(FOLDER, "recorded")
            folder.mkdir(exist_ok=True)
            path = folder / f"{'x' if self.rank is None else self.rank}-{os.getpid()}-{time.time_ns()}.jsonl"
            self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        if self.torn:  # ends the line that did not fit on the disk
            data, self.torn = b"\n" + data, False
        while data:
            data = data[os.write(self.file, data) :]


_writer: _Writer | None = None
if FOLDER and Path(FOLDER).is_dir():
    _writer = _Writer()
    atexit.register(lambda: _writer.flush() if _writer else None)
    if hasattr(os, "register_at_fork"):  # what was recorded before a fork is the parent's
        os.register_at_fork(after_in_child=lambda: globals().update(_writer=_Writer()))


def _ignore(what: str, error: Exception) -> None:
    if _writer is not None and what not in _writer.ignored:
        _writer.ignored.append(what)
        print(f"parallab_log: {what} was ignored: {error}", file=sys.stderr)


def log(values: Mapping[str, float], step: int | None = None) -> None:
    """Record numbers by name at a step; without one, calls are counted."""
    if (writer := _writer) is None:
        return
    try:
        at = writer.steps if step is None else int(step)
        record = (time.time(), at, {str(name): float(value) for name, value in values.items()})
        writer.steps = at + 1
        writer.add(record)
    except Exception as error:
        _ignore("log", error)


def progress(done: int, total: int) -> None:
    """Record the script's progress, such as its steps so far and in total."""
    if (writer := _writer) is None:
        return
    try:
        writer.progress = [int(done), int(total)]
        writer.add()
    except Exception as error:
        _ignore("progress", error)


@contextmanager
def phase(name: str) -> Iterator[None]:
    """Add the block's seconds to a phase: data, compute, communicate, wait, update or evaluate. Inner ones pause it."""
    if (writer := _writer) is None:
        yield
        return
    outer, writer.local.inner = getattr(writer.local, "inner", 0.0), 0.0
    begin = time.perf_counter()
    try:
        yield
    finally:
        seconds = time.perf_counter() - begin
        writer.phases[name] = writer.phases.get(name, 0.0) + seconds - writer.local.inner
        writer.local.inner = outer + seconds
        writer.add()
