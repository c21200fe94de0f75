"""The sink of a job's worker: it appends each report to the file of records. Torch-free."""

import errno
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.cluster.job_folder import JobFolder
from engine.cluster.records import (
    BatchRecord,
    BeginRecord,
    Ended,
    EndRecord,
    EventRecord,
    HealthRecord,
    LogRecord,
    NoteRecord,
    RanksRecord,
    Record,
    RunningRecord,
    StandstillRecord,
    WriteRecord,
    line_of,
    plain,
)
from engine.errors import StoreFull, StoreGone
from engine.recorder import Point
from engine.store.curve_records import MachineSample
from engine.store.records import RankBatch, RankRow
from engine.store.timestamps import now
from engine.system.run_files import opened_within
from engine.trace.health import Health
from engine.trace.layout import TraceWindow

SYNC_S = 1.0
"""Seconds between requests to the file system to keep what was written, even if the node dies."""
FULL = (errno.ENOSPC, errno.EDQUOT)


class RecordFile:
    """Appends records to a job's file; one writer a file."""

    def __init__(self, folder: JobFolder) -> None:
        self._folder = folder
        self._file = os.open(folder.records, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        if os.fstat(self._file).st_size:
            raise FileExistsError(f"{folder.records} belongs to another worker")
        self._sequence = 0
        self._torn = False
        self._synced_at = 0.0
        self._rows: list[RankRow] = []
        self._requests = 0

    def append(self, record: Record) -> None:
        """Append a record; raises StoreFull if the file system is full, and the record is then not in the file."""
        line = line_of(self._sequence + 1, now(), record)
        try:
            written = os.write(self._file, b"\n" * self._torn + line)
        except OSError as error:
            if error.errno not in FULL:
                raise
            written = 0
        if written < len(line) + self._torn:
            self._torn = self._torn or written > 0
            raise StoreFull(f"The shared file system is full: no record fits into {self._folder.records}. Free space.")
        self._sequence, self._torn = self._sequence + 1, False
        if time.monotonic() - self._synced_at >= SYNC_S:
            self.sync()

    def sync(self) -> None:
        """Ask the file system to keep what was written; raises StoreGone if the job's folder was deleted."""
        if os.fstat(self._file).st_nlink == 0:
            raise StoreGone(f"The job's folder {self._folder.path} was deleted during the run, which ends.")
        self._synced_at = time.monotonic()
        os.fdatasync(self._file)

    def begin(self, environment: dict[str, Any], cores: Sequence[int], gpus: Sequence[int], pid: int) -> None:
        self.append(BeginRecord(environment=plain(environment), cores=[*cores], gpus=[*gpus], pid=pid))

    def ranks(self, rows: Sequence[RankRow]) -> None:
        changed = [row for row in rows if row not in self._rows]
        if changed:
            self.append(RanksRecord(rows=changed))
            self._rows = [*rows]

    def running(self, startup_time_s: float) -> None:
        self.append(RunningRecord(startup_time_s=startup_time_s))

    def write(
        self,
        batches: Sequence[RankBatch],
        run_points: Sequence[Point],
        progress: tuple[int, int, str],
        samples: Sequence[MachineSample],
        windows: Sequence[TraceWindow],
    ) -> None:
        self.append(
            WriteRecord.model_construct(
                batches=[BatchRecord.of(batch) for batch in batches],
                points=[*run_points],
                progress=progress,
                samples=[*samples],
                windows=[*windows],
            )
        )

    def trace_requests(self) -> list[float]:
        found = self._folder.trace_requests()
        new, self._requests = found[self._requests :], len(found)
        return new

    def standstill(self, kind: str, sentence: str) -> None:
        self.append(StandstillRecord(state=kind, sentence=sentence))

    def health(self, health: Health) -> None:
        self.append(HealthRecord(health=health.plain()))

    def event(self, kind: str, detail: str) -> None:
        self.append(EventRecord(event=kind, detail=detail))

    def log_file(self, source: str, path: str) -> None:
        self.append(LogRecord(source=source, path=path))

    def note(self, name: str, value: Any) -> None:
        self.append(NoteRecord(name=name, value=plain(value)))

    def end(self, status: Ended, cause: str, error: str, execution_time_s: float | None) -> None:
        self.append(EndRecord(status=status, cause=cause, error=error, execution_time_s=execution_time_s))
        self.sync()


def read_records(path: Path, position: int, most: int) -> bytes:
    """Return up to `most` bytes of a file of records from a position on; all of its next line if that is longer; empty
    without the file.
    """
    try:
        with opened_within(path.parent, path.name) as file:
            file.seek(position)
            content = file.read(most)
            while len(content) >= most and b"\n" not in content:
                more = file.read(most)
                content += more
                if not more:
                    break
            return content
    except FileNotFoundError:
        return b""
