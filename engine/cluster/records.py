"""The records of a job: what its worker reports, as lines of a file, each applied to the store once. Torch-free.

A line is a CRC-32 of the rest in hexadecimal digits, the record's number, its time, and the record as JSON, separated
by blanks. Numbers begin at 1 and grow by 1, so that a missing record is noticed.
"""

import json
import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal, NamedTuple, Protocol, TypeVar
from zlib import crc32

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter

from engine.recorder import Point, Span
from engine.runtime.worker.sink import Sink
from engine.store.curve_records import MachineSample
from engine.store.records import RankBatch, RankRow
from engine.trace.health import Health
from engine.trace.layout import TraceWindow
from engine.trace.packed import PackedChunk

Ended = Literal["finished", "failed", "cancelled", "lost"]
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
T = TypeVar("T")


class JobSink(Sink, Protocol):
    """Where a job's records go: a sink, and what else a worker tells the store of its run."""

    def begin(self, environment: dict[str, Any], cores: Sequence[int], gpus: Sequence[int], pid: int) -> None:
        """Report that the worker has begun the run."""

    def log_file(self, source: str, path: str) -> None:
        """Report a log file of the run's folder."""

    def end(self, status: Ended, cause: str, error: str, execution_time_s: float | None) -> None:
        """Report how the run ended."""


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, ser_json_inf_nan="constants")

    def apply(self, sink: JobSink) -> None:
        """Report the record to a sink."""
        raise NotImplementedError


class BeginRecord(_Record):
    """The worker has begun the run."""

    kind: Literal["begin"] = "begin"
    environment: dict[str, Any]
    cores: list[int] = []
    gpus: list[int] = []
    pid: int = 0

    def apply(self, sink: JobSink) -> None:
        sink.begin(self.environment, self.cores, self.gpus, self.pid)


def _timed(record: T, at: str | None) -> T:
    """Return a record whose time is one: a program of another machine wrote it."""
    if at is not None and not _TIME.fullmatch(at):
        raise ValueError(f"not a time: '{at}'")
    return record


class RanksRecord(_Record):
    """States of ranks."""

    kind: Literal["ranks"] = "ranks"
    rows: list[Annotated[RankRow, AfterValidator(lambda row: _timed(row, row.heartbeat_at))]]

    def apply(self, sink: JobSink) -> None:
        sink.ranks(self.rows)


class RunningRecord(_Record):
    """All ranks are ready."""

    kind: Literal["running"] = "running"
    startup_time_s: float

    def apply(self, sink: JobSink) -> None:
        sink.running(self.startup_time_s)


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

    def apply(self, sink: JobSink) -> None:
        sink.standstill(self.state, self.sentence)


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

    def apply(self, sink: JobSink) -> None:
        sink.event(self.event, self.detail)


class LogRecord(_Record):
    """A log file of the run's folder."""

    kind: Literal["log"] = "log"
    source: str
    path: str = Field(pattern=r"^logs/[A-Za-z0-9_.-]+\.log$")

    def apply(self, sink: JobSink) -> None:
        sink.log_file(self.source, self.path)


class NoteRecord(_Record):
    """An addition to the run's environment."""

    kind: Literal["note"] = "note"
    name: str = Field(pattern=r"^[a-z_]{1,40}$")
    value: Any

    def apply(self, sink: JobSink) -> None:
        sink.note(self.name, self.value)


class EndRecord(_Record):
    """How the run ended: the last record."""

    kind: Literal["end"] = "end"
    status: Ended
    cause: str
    error: str = ""
    execution_time_s: float | None = None

    def apply(self, sink: JobSink) -> None:
        sink.end(self.status, self.cause, self.error, self.execution_time_s)


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
        return _RECORD.validate_json(self.json)


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
