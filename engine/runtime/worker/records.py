"""The records of a job: what its worker reports, as lines of a file, each applied to the store once. Torch-free.

A line is a CRC-32 of the rest in hexadecimal digits, the record's number, its time, and the record as JSON, separated
by blanks. Numbers begin at 1 and grow by 1, so that a missing record is noticed.
"""

import errno
import json
import os
import re
import time
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Protocol, TypeVar
from zlib import crc32

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter

from engine.errors import StoreFull, StoreGone
from engine.recorder import Point, Span
from engine.runtime.worker.job_folder import JobFolder
from engine.runtime.worker.sink import Sink
from engine.store.curve_records import MachineSample
from engine.store.records import RankBatch, RankRow
from engine.store.timestamps import now
from engine.system.run_files import opened_within
from engine.trace.health import Health
from engine.trace.layout import PackedChunk, TraceWindow

Ended = Literal["finished", "failed", "cancelled", "lost"]
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
T = TypeVar("T")


class JobSink(Sink, Protocol):
    """Where a job's records go: a sink, and what else a worker tells the store of its run."""

    def begin(self, environment: dict[str, Any], cores: Sequence[int], gpus: Sequence[int], pid: int) -> None:
        """Report that the worker has begun the run."""

    def end(self, status: Ended, cause: str, error: str, execution_time_s: float | None) -> None:
        """Report how the run ended."""


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, ser_json_inf_nan="constants")

    kind: str
    """The sink's method that takes the other fields."""

    def apply(self, sink: JobSink) -> None:
        """Report the record to a sink."""
        getattr(sink, self.kind)(*(value for name, value in self if name != "kind"))


class BeginRecord(_Record):
    """The worker has begun the run."""

    kind: Literal["begin"] = "begin"
    environment: dict[str, Any]
    cores: list[int] = []
    gpus: list[int] = []
    pid: int = 0


def _timed(record: T, at: str | None) -> T:
    """Return a record whose time is one: a program of another machine wrote it."""
    if at is not None and not _TIME.fullmatch(at):
        raise ValueError(f"not a time: '{at}'")
    return record


class RanksRecord(_Record):
    """States of ranks."""

    kind: Literal["ranks"] = "ranks"
    rows: list[Annotated[RankRow, AfterValidator(lambda row: _timed(row, row.heartbeat_at))]]


class RunningRecord(_Record):
    """All ranks are ready."""

    kind: Literal["running"] = "running"
    startup_time_s: float


class BatchRecord(BaseModel):
    """One rank's batch, with the fields of `RankBatch`."""

    model_config = ConfigDict(ser_json_inf_nan="constants")

    rank: int
    points: list[Point] = []
    phases: dict[str, float] = {}
    spans: list[Span] = []
    histograms: list[tuple[str, int, int]] = []
    last_step: int | None = None
    dropped: int = 0
    trace: tuple[int, int, str, str] | None = None
    """Entries, lost entries, names and content of a packed chunk."""

    def batch(self) -> RankBatch:
        """Return the batch."""
        return RankBatch(
            self.rank,
            self.points,
            self.phases,
            self.spans,
            {(name, bucket): count for name, bucket, count in self.histograms},
            self.last_step,
            self.dropped,
            PackedChunk(self.rank, *self.trace) if self.trace else None,
        )

    @classmethod
    def of(cls, batch: RankBatch) -> "BatchRecord":
        """Return the record of a batch."""
        chunk = batch.trace
        return cls.model_construct(
            rank=batch.rank,
            points=[*batch.points],
            phases=dict(batch.phases),
            spans=[*batch.spans],
            histograms=[(name, bucket, count) for (name, bucket), count in batch.histograms.items()],
            last_step=batch.last_step,
            dropped=batch.dropped,
            trace=(len(chunk), chunk.lost, *chunk.packed()) if chunk is not None else None,
        )


class WriteRecord(_Record):
    """New data of the ranks and the run."""

    kind: Literal["write"] = "write"
    batches: list[BatchRecord] = []
    points: list[Point] = []
    progress: tuple[int, int, str] = (0, 0, "")
    samples: list[Annotated[MachineSample, AfterValidator(lambda sample: _timed(sample, sample.at))]] = []
    windows: list[TraceWindow] = []

    def apply(self, sink: JobSink) -> None:
        sink.write([record.batch() for record in self.batches], self.points, self.progress, self.samples, self.windows)


class StandstillRecord(_Record):
    """A rank, or the run, stands still."""

    kind: Literal["standstill"] = "standstill"
    state: str
    sentence: str


class HealthRecord(_Record):
    """What each rank is doing."""

    kind: Literal["health"] = "health"
    health: dict[str, Any]

    def apply(self, sink: JobSink) -> None:
        sink.health(Health.of(self.health))


class EventRecord(_Record):
    """An event."""

    kind: Literal["event"] = "event"
    event: str
    detail: str


class LogRecord(_Record):
    """A log file of the run's folder."""

    kind: Literal["log_file"] = "log_file"
    source: str
    path: str = Field(pattern=r"^logs/[A-Za-z0-9_. -]+\.log$")


class NoteRecord(_Record):
    """An addition to the run's environment."""

    kind: Literal["note"] = "note"
    name: str = Field(pattern=r"^[a-z_]{1,40}$")
    value: Any


class EndRecord(_Record):
    """How the run ended: the last record."""

    kind: Literal["end"] = "end"
    status: Ended
    cause: str
    error: str = ""
    execution_time_s: float | None = None


Record = (
    BeginRecord
    | RanksRecord
    | RunningRecord
    | WriteRecord
    | StandstillRecord
    | HealthRecord
    | EventRecord
    | LogRecord
    | NoteRecord
    | EndRecord
)
_RECORD: TypeAdapter[Record] = TypeAdapter(Annotated[Record, Field(discriminator="kind")])


class Line(NamedTuple):
    """One intact line."""

    sequence: int
    at: str
    json: bytes

    def record(self) -> Record:
        """Return its record; raises ValueError if it is none."""
        try:
            return _RECORD.validate_json(self.json)
        except ValueError:
            if (found := _of_version_0_3(json.loads(self.json))) is None:
                raise
            return _RECORD.validate_python(found)


def _of_version_0_3(found: Any) -> Any:
    """Return today's record for one of version 0.3, whose job may end after the runner's upgrade; None for others."""
    match found:
        case {"kind": "log"}:
            return found | {"kind": "log_file"}
        case {"kind": "network", "level": value}:
            return {"kind": "note", "name": "network", "value": value}
        case {"kind": "programs", "programs": value}:
            return {"kind": "note", "name": "other_programs", "value": value}
        case {"kind": "ranks", "rows": [*rows]} if all(isinstance(row, list) for row in rows):
            return found | {"rows": [dict(zip(_names(RankRow), row, strict=False)) for row in rows]}
        case {"kind": "write", "samples": [*samples]} if all(isinstance(sample, list) for sample in samples):
            return found | {"samples": [dict(zip(_names(MachineSample), sample, strict=False)) for sample in samples]}
    return None


def _names(kind: type[RankRow | MachineSample]) -> list[str]:
    return [field.name for field in fields(kind)]


class Tail(NamedTuple):
    """The intact lines at the end of a file, and where to go on."""

    lines: list[Line]
    position: int
    damaged: int
    """Complete lines between them whose checksum is wrong."""


def line_of(sequence: int, at: str, record: Record) -> bytes:
    """Return a record as a line."""
    rest = b"%d %s %s" % (sequence, at.encode(), record.model_dump_json().encode())
    return b"%08x %s\n" % (crc32(rest), rest)


def tail_of(content: bytes, position: int, *, last: bool = False) -> Tail:
    """Return the lines of `content`, which begins at that position of the file. A line that is not complete yet, and
    damaged ones at the very end, are left for the next time, unless it is the `last`: a file system may show a part of
    what was written last.
    """
    lines: list[Line] = []
    damaged = pending = 0
    good = at = 0
    while (end := content.find(b"\n", at)) >= 0:
        line = _intact(content[at:end])
        if line:
            lines.append(line)
            damaged += pending
            good, pending = end + 1, 0
        elif end > at:
            pending += 1
        at = end + 1
    if last:
        return Tail(lines, position + len(content), damaged + pending + (at < len(content)))
    return Tail(lines, position + good, damaged)


def _intact(line: bytes) -> Line | None:
    checksum, _, rest = line.partition(b" ")
    try:
        if len(checksum) != 8 or int(checksum, 16) != crc32(rest):
            return None
        sequence, at, found = rest.split(b" ", 2)
        return Line(int(sequence), at.decode("ascii"), found)
    except ValueError:
        return None


def plain(value: Any) -> Any:
    """Return a value as JSON holds it."""
    return json.loads(json.dumps(value, default=str))


# ---- The sink of a job's worker: it appends each report to the file of records. Torch-free -------------------------

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
